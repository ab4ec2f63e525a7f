"""A replay with the rewards of a rescoring makes the updates that follow from these rewards."""

import pytest

from apps.lineage.replaying.creating import NothingToReplay, create_replay, propose
from apps.rewards.models import Rescoring
from apps.rewards.rescoring.asking import start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.rewards.rescoring.judging import record_rescoring, take_rescoring_groups
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion
from apps.runs.models import Run
from tests.workers.trainer.feeding import LEASE, _verdict
from tests.workers.trainer.test_replay_trainer import (  # noqa: F401  (fixtures)
    batches,
    dana,
    rated_run,
    to_the_end,
    violations,
)


def scored_again(run: Run, verdict=_verdict, **chosen: object) -> Rescoring:
    """Rescore the run with its own scorer, using the results of `verdict`."""
    again = start_rescoring(run, [{"scorer": "sort"}], Chosen(**chosen))
    while taken := take_rescoring_groups("scorer", LEASE, 100):
        record_rescoring(
            taken,
            [AnsweredQuestion(question, [verdict(question)]) for question in taken.questions({})],
        )
    again.refresh_from_db()
    return again


def replayed_by(again: Rescoring, new_loop) -> Run:
    proposal = propose(again.run, rescoring=again)
    run = create_replay(proposal, proposal.slug, proposal.title)
    run.start()
    return to_the_end(run, new_loop())


def test_rescoring_with_equal_rewards_replays_the_same_updates_and_weights(rated_run, new_loop):
    run = rated_run()
    again = scored_again(run)
    assert set(again.rescored.values_list("fate", flat=True)) == {"same"}
    made = replayed_by(again, new_loop)
    assert (made.state, made.step) == (Run.State.COMPLETED, 6)
    assert batches(made) == batches(run)
    assert made.weight_versions.first().fingerprint == run.weight_versions.first().fingerprint
    assert violations() == {}


@pytest.mark.nightly
def test_rescoring_with_other_rewards_changes_updates_of_unrated_rollouts(rated_run, new_loop):
    run = rated_run()
    made = replayed_by(
        scored_again(run, lambda question: Verdict(1 - _verdict(question).value, "turned round")),
        new_loop,
    )
    before = batches(run)
    after = batches(made)
    assert [len(step) for step in before] == [len(step) for step in after]
    rewards = [
        (b[2], b[3], a[3])
        for two in zip(before, after, strict=True)
        for b, a in zip(*two, strict=True)
    ]
    rated = (0, 1)
    unrated = 3  # bob rates the first two of each group, nobody rates the last
    assert all(was == now for place, was, now in rewards if place in rated)
    assert all(was != now for place, was, now in rewards if place == unrated)
    assert made.weight_versions.first().fingerprint != run.weight_versions.first().fingerprint
    assert violations() == {}


@pytest.mark.nightly
def test_rescoring_of_some_updates_replays_only_them(rated_run, new_loop):
    run = rated_run()
    again = scored_again(run, from_step=3, to_step=4)
    proposal = propose(run, rescoring=again)
    assert (
        proposal.beginning.version.version,
        proposal.last_step,
        proposal.steps,
        proposal.unscored,
    ) == (2, 4, 2, 0)
    made = replayed_by(again, new_loop)
    assert (made.state, made.step, made.settings.replay.rescoring) == (
        Run.State.COMPLETED,
        2,
        again.pk,
    )


@pytest.mark.nightly
def test_unfinished_rescoring_is_refused(rated_run):
    run = rated_run()
    again = start_rescoring(run, [{"scorer": "sort"}], Chosen())
    with pytest.raises(
        NothingToReplay, match="this rescoring is waiting: only finished rescorings"
    ):
        propose(run, rescoring=again)
