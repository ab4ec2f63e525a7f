"""A change of a live run applies to rollouts opened after it; weights that disappear while they
are read do not stop a run.
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
    """Create a run of a real untrained policy with long answers: 2 groups of 8 per step."""
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
    """Serve until all groups that the run may open are sampled."""
    explorer.looked_at = 0.0

    def nothing_in_flight() -> bool:
        explorer.serve()
        return not any(session.rollouts for session in explorer.sessions.values())

    eventually(nothing_in_flight, 300)


def test_shorter_answer_length_applies_to_the_next_rollouts(sampled_run, explorer, eventually):
    settle(explorer, eventually)
    first = set(Rollout.objects.values_list("pk", flat=True))
    assert max(Rollout.objects.values_list("completion_tokens", flat=True)) > 3
    sampled_run.change_config(None, sampling={"max_tokens": 3}, max_staleness=5)
    settle(explorer, eventually)
    later = Rollout.objects.exclude(pk__in=first)
    assert later.exists() and max(later.values_list("completion_tokens", flat=True)) <= 3


def test_version_retired_while_it_is_read_is_skipped(sampled_run, explorer, eventually, tmp_path):
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


def test_rollouts_in_flight_end_in_the_stream_when_their_run_is_stopped(
    sampled_run, explorer, settings
):
    explorer._look_for_work()  # opens groups without reading tokens: nothing is complete yet
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


def test_stopped_explorer_releases_its_groups_without_counting_failures(sampled_run, explorer):
    explorer._look_for_work()  # they have started, but no tokens were read
    explorer.stop()
    left = Group.objects.filter(state=Group.State.SAMPLING)
    assert left and {(group.attempts, group.lease_until) for group in left} == {(0, None)}


def test_changed_temperature_applies_to_the_next_rollouts(sampled_run, explorer, eventually):
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
    """Return the mean negative logprob in nats per token."""
    said = [
        logprob
        for rollout in rollouts.select_related("payload")
        for logprob in rollout.tokens.logprobs
    ]
    return -sum(said) / len(said)
