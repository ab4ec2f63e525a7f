"""A real explorer with a real untrained policy, served step by step, so that tests can act on
rollouts while they are generated.
"""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from django.conf import settings

from apps.feedback.interventions import request_intervention
from apps.feedback.models import Intervention
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rollouts.models import Rollout
from apps.runs.models import Run, Worker
from apps.streaming.chunks import rollout_key
from tests.streaming.browser import Browser
from tests.workers.explorer.sips import sip, sipping
from workers.explorer import loop
from workers.explorer import session as run_session
from workers.explorer.rollout import InFlightRollout
from workers.explorer.session import RunSession
from workers.policies.tiny import build_tiny


@pytest.fixture(scope="session")
def untrained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "sort"
    build_tiny(folder)
    return folder


@pytest.fixture
def tiny_policy(policy, untrained) -> Policy:
    """Return the database row of that policy."""
    fields = {
        "folder": str(untrained),
        "fingerprint": read_manifest(untrained).fingerprint,
        "context_tokens": 128,
    }
    Policy.objects.filter(pk=policy.pk).update(**fields)
    policy.refresh_from_db()
    return policy


@pytest.fixture
def watched_run(new_run, tiny_policy) -> Run:
    """Create a run of it: 2 groups of 8 per step, answers of up to 110 tokens; one token in
    twenty ends the answer.
    """
    return new_run(sampling={"max_tokens": 110}, engine="transformers", group_size=8)


@pytest.fixture
def tone_run(new_run, policy, taskset, tmp_path) -> Run:
    """Create a run with customer messages, answered randomly and at length, so that the rewards in
    every group differ; 2 groups of 4 per step.
    """
    build_tiny(tmp_path / "tone", "tone")
    fields = {
        "folder": str(tmp_path / "tone"),
        "fingerprint": read_manifest(tmp_path / "tone").fingerprint,
        "context_tokens": 128,
    }
    Policy.objects.filter(pk=policy.pk).update(**fields)
    policy.refresh_from_db()
    asked = [{"role": "user", "content": "My lamp is late."}]
    answer = {"object": "lamp", "objects": ["lamp", "session"]}
    taskset.tasks.update(prompt=asked, answer=answer)
    rewards = [{"scorer": "tone"}, {"scorer": "tone_dialogue"}]
    return new_run(
        sampling={"max_tokens": 100},
        engine="transformers",
        group_size=4,
        rewards=rewards,
        max_staleness=0,
    )


def another(character: str) -> str:
    """Return another character of the sort policy's, so that an edit begins at the intended
    position.
    """
    return "=" if character != "=" else "+"


class Stage:
    """The explorer, with the actions and checks of the tests."""

    def __init__(
        self, explorer: loop.ExplorerLoop, eventually: Callable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.explorer = explorer
        self.eventually = eventually
        self.monkeypatch = monkeypatch
        self.patience = 300
        self.sips = False

    @property
    def session(self) -> RunSession:
        (session,) = self.explorer.sessions.values()
        return session

    def sip(self, tokens: int = 1) -> None:
        """Let the sessions receive `tokens` tokens of each request at a time, from the first
        one on, independent of the machine's speed.
        """
        if self.sips:
            return
        self.sips = True
        for opened in self.explorer.sessions.values():
            sip(opened.engine, tokens)
        self.monkeypatch.setattr(
            run_session, "build_engine", sipping(run_session.build_engine, tokens)
        )

    def in_flight(self, rollout_id: int) -> InFlightRollout | None:
        return self.session.rollouts.get(str(rollout_id))

    def streaming(self, turns: int = 1, tokens: int = 4) -> InFlightRollout:
        """Return a running rollout whose turn number `turns` (counted from 1) has text and at least
        `tokens` tokens.
        """

        def look() -> InFlightRollout | None:
            self.explorer.serve()
            here = [
                in_flight
                for session in self.explorer.sessions.values()
                for in_flight in session.rollouts.values()
            ]
            return next(
                (
                    f
                    for f in here
                    if f.request_id and len(f.turns) >= turns and len(f.turn.text) >= tokens
                ),
                None,
            )

        self.sip()
        return self.eventually(look, self.patience)

    def caught(self, count: int, by) -> list[InFlightRollout]:
        """Return `count` rollouts with some text, all held by this person."""

        def look() -> list[InFlightRollout]:
            self.explorer.serve()
            here = [
                in_flight
                for session in self.explorer.sessions.values()
                for in_flight in session.rollouts.values()
            ]
            talking = [
                in_flight
                for in_flight in here
                if in_flight.request_id and len(in_flight.turn.text) >= 4
            ]
            return talking[:count] if len(talking) >= count else []

        self.sip()
        rollouts = self.eventually(look, self.patience)
        for in_flight in rollouts:
            request_intervention(by, in_flight.rollout_id, "hold", "", uuid.uuid4())
        self.explorer.serve()  # acts are handled before new tokens of the engine
        assert all(in_flight.held_until for in_flight in rollouts)
        return rollouts

    def ask(
        self, by, in_flight: InFlightRollout, kind: str, text: str = "", turn: int | None = None
    ) -> Intervention:
        """Request an intervention, let the explorer perform it, and return the result."""
        act = request_intervention(by, in_flight.rollout_id, kind, text, uuid.uuid4(), turn)
        self.explorer.serve()
        act.refresh_from_db()
        return act

    def watched(self, rollout: Rollout) -> Browser:
        """Return the page of a user who watched a rollout from the first chunk to the last, which
        arrives just after its row.
        """
        stream = redis.Redis.from_url(settings.REDIS_URL)

        def all_said() -> list[dict]:
            self.explorer.serve()
            chunks = [
                {"id": key.decode(), **json.loads(said[b"c"])}
                for key, said in stream.xrange(rollout_key(rollout.pk))
            ]
            return chunks if chunks and chunks[-1]["t"] == "end" else []

        browser = Browser("", {}, [])
        for chunk in self.eventually(all_said, self.patience):
            browser.play(chunk)
        return browser

    def ended(self, rollout_id: int) -> Rollout:
        """Wait until the rollout is written, and return it."""

        def look() -> Rollout | None:
            self.explorer.serve()
            return (
                Rollout.objects.exclude(state=Rollout.State.SAMPLING).filter(pk=rollout_id).first()
            )

        return self.eventually(look, self.patience)


@pytest.fixture
def stage(transactional_db, eventually, monkeypatch, settings) -> Stage:
    settings.LEASE_SECONDS = 300  # this engine is not served while another one is built
    monkeypatch.setattr(loop, "DRAIN_SECONDS", 0.005)  # so that few tokens arrive between two looks
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)  # and each turn looks for interventions
    explorer = loop.ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield Stage(explorer, eventually, monkeypatch)
    explorer.stop()
