"""A change of a live run reaches rollouts that are opened after it; weights that went while they
were read stop nobody.
"""

import json
import shutil
from pathlib import Path

import pytest
import redis

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, WeightVersion, Worker
from apps.streaming.chunks import topic_key
from workers.explorer.loop import ExplorerLoop
from workers.policies.tiny import build_tiny


@pytest.fixture
def sampled_run(new_run, policy, tmp_path) -> Run:
    """A run of a real untrained policy, whose answers are long: 2 groups of 8 a step."""
    build_tiny(tmp_path / "base")
    Policy.objects.filter(pk=policy.pk).update(
        folder=str(tmp_path / "base"), fingerprint=read_manifest(tmp_path / "base").fingerprint
    )
    policy.refresh_from_db()
    return new_run(sampling={"max_tokens": 40}, engine="transformers", group_size=8)


@pytest.fixture
def explorer(transactional_db):
    made = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield made
    made.stop()


def settle(explorer: ExplorerLoop, eventually) -> None:
    """Serve until what the pace allows is opened and sampled."""
    explorer.looked_at = 0.0

    def nothing_in_flight() -> bool:
        explorer.serve()
        return not any(session.rollouts for session in explorer.sessions.values())

    eventually(nothing_in_flight, 300)


def test_a_shorter_answer_length_holds_for_the_next_rollouts(sampled_run, explorer, eventually):
    settle(explorer, eventually)
    first = set(Rollout.objects.values_list("pk", flat=True))
    assert max(Rollout.objects.values_list("completion_tokens", flat=True)) > 3
    sampled_run.change_config(None, sampling={"max_tokens": 3}, max_staleness=5)
    settle(explorer, eventually)
    later = Rollout.objects.exclude(pk__in=first)
    assert later.exists() and max(later.values_list("completion_tokens", flat=True)) <= 3


def test_a_version_that_was_retired_while_it_was_read_is_passed_over(
    sampled_run, explorer, eventually, tmp_path
):
    settle(explorer, eventually)
    shutil.copytree(tmp_path / "base", tmp_path / "v1")
    version = WeightVersion.objects.create(
        run=sampled_run, version=1, folder=str(tmp_path / "v1"), fingerprint="f", step=1
    )
    version.verify()
    version.publish()
    WeightVersion.objects.filter(pk=version.pk).update(state=WeightVersion.State.RETIRED)
    shutil.rmtree(Path(version.folder))
    settle(explorer, eventually)
    sampled_run.refresh_from_db()
    assert (sampled_run.state, explorer.sessions[sampled_run.pk].version) == (Run.State.RUNNING, 0)


def test_what_was_being_said_when_a_run_was_stopped_does_not_stay_live(
    sampled_run, explorer, settings
):
    explorer._look_for_work()  # opens groups, and takes no news: nothing can be complete yet
    (session,) = explorer.sessions.values()
    unfinished = set(session.rollouts)
    assert unfinished
    sampled_run.stop()
    explorer.looked_at = 0.0
    explorer.serve()
    assert explorer.sessions == {}
    stream = redis.Redis.from_url(settings.REDIS_URL).xrange(topic_key(sampled_run.topic_id))
    said = [json.loads(entry[b"c"]) for _, entry in stream]
    assert {str(chunk["r"]) for chunk in said if chunk["t"] == "end"} == {
        str(chunk["r"]) for chunk in said if chunk["t"] == "started"
    }


def test_an_explorer_that_is_stopped_gives_its_groups_back_and_none_has_failed(
    sampled_run, explorer
):
    explorer._look_for_work()  # they are begun, and nothing of them is heard
    explorer.stop()
    left = Group.objects.filter(state=Group.State.SAMPLING)
    assert left and {(group.attempts, group.lease_until) for group in left} == {(0, None)}


def test_another_temperature_holds_for_the_next_rollouts(sampled_run, explorer, eventually):
    settle(explorer, eventually)
    first = set(Rollout.objects.values_list("pk", flat=True))
    sampled_run.change_config(None, sampling={"temperature": 0.01}, max_staleness=5)
    settle(explorer, eventually)
    later = Rollout.objects.exclude(pk__in=first)
    assert (
        later.exists()
        and surprise_of(later) < surprise_of(Rollout.objects.filter(pk__in=first)) / 3
    )


def surprise_of(rollouts) -> float:
    """Nats a token."""
    said = [
        logprob
        for rollout in rollouts.select_related("payload")
        for logprob in rollout.tokens.logprobs
    ]
    return -sum(said) / len(said)
