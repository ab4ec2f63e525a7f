"""A judged group becomes experiences by the run's algorithm, and an update records the advantage of
each.
"""

import math

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import Experience, StepItem, batch_of, plan_step
from apps.dashboard.rollout_rows import newest_rollouts
from apps.pipelines.crediting import credit_batch
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group


def advantages(run):
    rows = Experience.objects.filter(run=run).order_by("group__draw_index", "rollout__sample_index")
    return list(rows.values_list("advantage", flat=True))


def test_group_without_spread_is_dropped_with_the_reason(new_run, judge):
    run = new_run(algorithm={"name": "dapo"})
    dead, alive = judge(run, (1.0, 1.0), (0.0, 1.0))
    assert dead.state == Group.State.DROPPED and "is not above 0" in dead.reason
    assert alive.state == Group.State.ADMITTED and len(advantages(run)) == 2


def test_raft_trains_only_the_best_rollout_of_a_group(new_run, judge):
    run = new_run(algorithm={"name": "raft", "advantage": {"min_reward": 0.5}})
    dropped, kept = judge(run, (0.1, 0.2), (0.6, 0.9))
    assert "reward of 0.5 or more" in dropped.reason and kept.state == Group.State.ADMITTED
    (experience,) = Experience.objects.filter(run=run)
    assert (experience.reward, experience.advantage) == (0.9, 1.0)


def test_algorithm_without_baseline_accepts_a_group_of_one(new_run, judge):
    run = new_run(group_size=1, algorithm={"name": "reinforce"})
    judge(run, (0.25,), (0.75,))
    assert advantages(run) == [0.25, 0.75]


def test_group_with_one_reward_is_dropped_if_the_algorithm_needs_a_baseline(run, finish):
    (group,) = finish(run)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 1)
    first, second = open_questions(claimed)
    record_verdicts(
        claimed,
        [
            AnsweredQuestion(first, [Verdict(1.0, "test")]),
            AnsweredQuestion(second, [Verdict(None, "failed")]),
        ],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 1))
    assert (
        "1 of 2 rollouts have a reward; a group needs at least 2"
        in Group.objects.get(pk=group.pk).reason
    )


def test_update_records_each_rollouts_advantage_scaled_over_the_batch(new_run, judge):
    run = new_run(algorithm={"advantage": {"scale": "batch"}})
    assert run.claim_trainer("t", 60)
    judge(run, (0.0, 2.0), (0.0, 4.0))
    assert advantages(run) == [-1.0, 1.0, -2.0, 2.0]
    step = plan_step(run, run.fence, credit_batch)
    deviation = math.sqrt((2.25 + 0.25 + 2.25 + 6.25) / 3) + 1e-6
    assert [e.credit.advantage for e in batch_of(step)] == pytest.approx(
        [a / deviation for a in (-1, 1, -2, 2)]
    )


def shown(run, user):
    return sorted(row["advantage"] for row in newest_rollouts(run, 10, user, is_open=True))


def test_page_shows_the_advantage_used_in_the_update(new_run, judge, alice):
    run = new_run(algorithm={"advantage": {"scale": "batch"}})
    assert run.claim_trainer("t", 60)
    judge(run, (0.0, 2.0), (0.0, 4.0))
    assert shown(run, alice) == [-2.0, -1.0, 1.0, 2.0]
    batch = batch_of(plan_step(run, run.fence, credit_batch))
    assert (
        shown(run, alice) == pytest.approx(sorted(e.credit.advantage for e in batch))
        and max(shown(run, alice)) < 2.0
    )


def test_token_advantages_are_read_back_as_recorded(new_run, judge):
    run = new_run(algorithm={"name": "ppo", "advantage": {"gamma": 0.5, "whiten": False}})
    assert run.claim_trainer("t", 60)
    judge(run, (0.0, 2.0), (0.0, 4.0))
    last = batch_of(plan_step(run, run.fence, credit_batch))[-1]
    assert last.rollout.tokens.action_mask[:4] == (1, 1, 1, 1)
    assert last.credit.tokens[-4:] == pytest.approx((0.5, 1.0, 2.0, 4.0))


def test_batch_is_not_planned_without_a_function_for_its_advantages(new_run, judge):
    run = new_run(algorithm={"name": "reinforce_plus_plus"})
    assert run.claim_trainer("t", 60)
    judge(run, (0.0, 2.0), (0.0, 4.0))
    with pytest.raises(ValueError, match="crediting"):
        plan_step(run, run.fence)
    assert not StepItem.objects.exists()


def test_group_algorithm_keeps_its_advantages_in_the_update(run, judge):
    assert run.claim_trainer("t", 60)
    judge(run, (0.0, 2.0), (0.0, 4.0))
    batch = batch_of(plan_step(run, run.fence, credit_batch))
    assert [e.credit.advantage for e in batch] == advantages(run)
    assert not StepItem.objects.exclude(advantage=None).exists()


@pytest.fixture
def to_refine(new_run, finish):
    """Return a function that creates judged groups with spread, claimed by a refiner."""

    def claimed(count: int):
        run = new_run(groups_per_step=count)
        finish(run, groups=count)
        scoring = Group.objects.claim(Group.State.SCORING, "s", 3600, count)
        record_verdicts(
            scoring,
            [
                AnsweredQuestion(one, [Verdict(float(n % 2), "test")])
                for n, one in enumerate(open_questions(scoring))
            ],
        )
        return Group.objects.claim(Group.State.JUDGED, "r", 3600, count)

    return claimed


def test_group_taken_over_by_another_worker_does_not_block_its_batch(to_refine):
    first, taken, last = to_refine(3)
    Group.objects.filter(pk=taken.pk).update(fence=taken.fence + 1)
    assert refine([first, taken, last]) == 2
    assert set(Experience.objects.values_list("group", flat=True)) == {first.pk, last.pk}
    assert Group.objects.get(pk=taken.pk).state == Group.State.JUDGED


def test_admitting_more_groups_needs_no_more_queries(to_refine, django_assert_num_queries):
    alone = to_refine(1)
    together = to_refine(4)
    with CaptureQueriesContext(connection) as of_one:
        assert refine(alone) == 1
    with django_assert_num_queries(len(of_one)):
        assert refine(together) == 4
