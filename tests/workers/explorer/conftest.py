"""A real explorer over a real untrained policy, served turn by turn, and rollouts caught while they are written."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from django.conf import settings

from apps.feedback.interventions import ask
from apps.feedback.models import Intervention
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rollouts.models import Rollout
from apps.runs.models import Run, Worker
from apps.streaming.chunks import rollout_key
from tests.streaming.browser import Browser
from tests.workers.explorer.sips import sip
from workers.explorer import station
from workers.explorer.flight import Flight
from workers.explorer.seat import Seat
from workers.policies.tiny import build_tiny


@pytest.fixture(scope="session")
def untrained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "sort"
    build_tiny(folder)
    return folder


@pytest.fixture
def tiny_policy(policy, untrained) -> Policy:
    """The row of that policy."""
    fields = {"folder": str(untrained), "fingerprint": read_manifest(untrained).fingerprint, "context_tokens": 128}
    Policy.objects.filter(pk=policy.pk).update(**fields)
    policy.refresh_from_db()
    return policy


@pytest.fixture
def watched_run(new_run, tiny_policy) -> Run:
    """A run of it: 2 groups of 8 a step, answers of up to 110 tokens, one in twenty of which is the end."""
    return new_run(sampling={"max_tokens": 110}, engine="transformers", group_size=8)


@pytest.fixture
def tone_run(new_run, policy, taskset, tmp_path) -> Run:
    """A run over messages of customers, answered at random and at length: every group's rewards differ. 2 groups of 4 a step."""
    build_tiny(tmp_path / "tone", "tone")
    fields = {"folder": str(tmp_path / "tone"), "fingerprint": read_manifest(tmp_path / "tone").fingerprint, "context_tokens": 128}
    Policy.objects.filter(pk=policy.pk).update(**fields)
    policy.refresh_from_db()
    asked, answer = [{"role": "user", "content": "My lamp is late."}], {"object": "lamp", "objects": ["lamp", "chair"]}
    taskset.tasks.update(prompt=asked, answer=answer)
    rewards = [{"scorer": "tone"}, {"scorer": "tone_dialogue"}]
    return new_run(sampling={"max_tokens": 100}, engine="transformers", group_size=4, rewards=rewards, max_staleness=0)


def another(character: str) -> str:
    """A character of the sort policy's other than this one, so that an edit begins where it is meant to."""
    return "=" if character != "=" else "+"


class Stage:
    """The explorer, and what a test asks of it."""

    def __init__(self, explorer: station.Explorer, eventually: Callable) -> None:
        self.explorer, self.eventually, self.patience = explorer, eventually, 300
        self.sips = False

    @property
    def seat(self) -> Seat:
        (seat,) = self.explorer.seats.values()
        return seat

    def sip(self, tokens: int = 1) -> None:
        """From now on the seat hears so many of each request at a time, however far ahead of a busy machine the engine is."""
        if self.sips:
            return
        self.sips = True
        self.explorer.serve()
        sip(self.seat.engine, tokens)

    def flight(self, rollout_id: int) -> Flight | None:
        return self.seat.flights.get(str(rollout_id))

    def streaming(self, turns: int = 1, tokens: int = 4) -> Flight:
        """A rollout whose turn number `turns` - counted from 1 - has at least so many tokens with text, and goes on."""

        def look() -> Flight | None:
            self.explorer.serve()
            here = [flight for seat in self.explorer.seats.values() for flight in seat.flights.values()]
            return next((f for f in here if f.request_id and len(f.turns) >= turns and len(f.turn.text) >= tokens), None)

        self.sip()
        return self.eventually(look, self.patience)

    def caught(self, count: int, by) -> list[Flight]:
        """So many rollouts with some text, all held by this person."""

        def look() -> list[Flight]:
            self.explorer.serve()
            here = [flight for seat in self.explorer.seats.values() for flight in seat.flights.values()]
            talking = [flight for flight in here if flight.request_id and len(flight.turn.text) >= 4]
            return talking[:count] if len(talking) >= count else []

        self.sip()
        flights = self.eventually(look, self.patience)
        for flight in flights:
            ask(by, flight.rollout_id, "hold", "", uuid.uuid4())
        self.explorer.serve()  # acts come before what the engine has said meanwhile
        assert all(flight.held_until for flight in flights)
        return flights

    def ask(self, by, flight: Flight, kind: str, text: str = "", turn: int | None = None) -> Intervention:
        """Ask, and let the explorer do it: what became of the act."""
        act = ask(by, flight.rollout_id, kind, text, uuid.uuid4(), turn)
        self.explorer.serve()
        act.refresh_from_db()
        return act

    def watched(self, rollout: Rollout) -> Browser:
        """The page of somebody who watched a rollout from the first chunk to the last, which comes a moment after its row."""
        stream = redis.Redis.from_url(settings.REDIS_URL)

        def all_said() -> list[dict]:
            self.explorer.serve()
            chunks = [{"id": key.decode(), **json.loads(said[b"c"])} for key, said in stream.xrange(rollout_key(rollout.pk))]
            return chunks if chunks and chunks[-1]["t"] == "end" else []

        browser = Browser("", {}, [])
        for chunk in self.eventually(all_said, self.patience):
            browser.play(chunk)
        return browser

    def ended(self, rollout_id: int) -> Rollout:
        """The rollout, once it is written."""

        def look() -> Rollout | None:
            self.explorer.serve()
            return Rollout.objects.exclude(state=Rollout.State.SAMPLING).filter(pk=rollout_id).first()

        return self.eventually(look, self.patience)


@pytest.fixture
def stage(transactional_db, eventually, monkeypatch, settings) -> Stage:
    settings.LEASE_SECONDS = 300  # while another engine is built nobody serves this one
    monkeypatch.setattr(station, "DRAIN_SECONDS", 0.005)  # so that little is said between two looks
    explorer = station.Explorer(Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1))
    yield Stage(explorer, eventually)
    explorer.stop()
