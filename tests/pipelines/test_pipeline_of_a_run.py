"""A run's pipeline decides what is trained: reasons are recorded, counts are exact, and a failing
operator does not stop the run.
"""

from dataclasses import replace

import pytest

from apps.buffer.models import Experience, plan_step
from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.dashboard.verdicts import verdict_on
from apps.pipelines.again import given_up, refine_again
from apps.pipelines.models import CutRollout, OperatorCount
from apps.pipelines.operators import find_operator
from apps.pipelines.refining import refine
from apps.rollouts.models import Group
from apps.runs.models import NotPossible


def step(operator: str, stage: str | None = None, **options: object) -> dict:
    return {"operator": operator, "stage": stage, "options": options}


def counts(run) -> list[tuple[str, int, int]]:
    return list(OperatorCount.objects.filter(run=run).values_list("operator", "given", "kept"))


def violations() -> list[str]:
    return list(groups_match_their_counters())


def learned(run) -> list[float]:
    return list(Experience.objects.filter(run=run).order_by("pk").values_list("reward", flat=True))


def test_pipeline_without_operators_counts_nothing(run, judge):
    judge(run, (0.0, 1.0))
    assert (
        learned(run) == [0.0, 1.0]
        and not OperatorCount.objects.exists()
        and not CutRollout.objects.exists()
    )


def test_group_that_loses_all_rollouts_is_dropped_with_the_operators_reason(new_run, judge):
    run = new_run(pipeline=[step("success_band", low=0.2, high=0.8)])
    easy, good = judge(run, (1.0, 1.0), (0.0, 1.0))
    assert easy.state == Group.State.DROPPED and easy.reason.startswith("success_band: too easy")
    assert good.state == Group.State.ADMITTED and counts(run) == [("success_band", 4, 2)]
    assert CutRollout.objects.filter(rollout__group=easy).count() == 2 and violations() == []


def test_dropped_group_is_replaced_by_a_new_draw(new_run, judge):
    run = new_run(pipeline=[step("dynamic_sampling")], max_staleness=0)
    judge(run, (1.0, 1.0), (0.0, 1.0))
    run.refresh_from_db()
    assert (
        Group.open(run, "e", 60, 9, run.published_version) and run.groups.count() == 3
    )  # one was dropped, so one is drawn


def test_rollout_removed_before_advantages_is_not_in_the_baseline(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("reward_at_least", "groups", threshold=0.4)])
    [group] = judge(run, (0.1, 0.5, 0.9))
    low, high = Experience.objects.filter(run=run).order_by("reward")
    assert (
        (low.reward, high.reward) == (0.5, 0.9)
        and low.advantage == pytest.approx(-high.advantage)
        and low.advantage < 0
    )
    cut = CutRollout.objects.get(rollout__group=group)
    assert (cut.operator, cut.reason, cut.is_silent) == (
        "reward_at_least",
        "the reward 0.1 is below 0.4",
        False,
    )
    assert (
        verdict_on(cut.rollout, []).words
        == "Excluded by reward_at_least: the reward 0.1 is below 0.4"
    )


def test_rollout_removed_after_advantages_is_in_the_baseline(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("reward_at_least", threshold=0.4)])
    judge(run, (0.0, 0.5, 1.0))
    low, high = Experience.objects.filter(run=run).order_by("reward")
    assert (low.reward, low.advantage) == (0.5, 0.0) and high.advantage > 0


def test_masked_rollout_counts_in_the_baseline_and_is_not_trained(new_run, judge):
    run = new_run(pipeline=[step("truncated", action="mask")])
    [group] = judge(run, (0.0, 1.0), stops={0: "length"})
    [experience] = Experience.objects.filter(run=run)
    assert experience.reward == 1.0 and experience.advantage > 0
    cut = CutRollout.objects.get()
    assert (
        cut.is_silent
        and verdict_on(cut.rollout, []).words
        == "Only counts in its group's baseline, by truncated: truncated at the maximum length"
    )
    assert counts(run) == [("truncated", 2, 2)] and group.state == Group.State.ADMITTED


@pytest.mark.parametrize("advantage", [{"scale": "batch"}, {"rank_penalty": 0.5}])
def test_group_with_one_rollout_left_to_be_compared_late_is_dropped(new_run, judge, advantage):
    run = new_run(
        pipeline=[step("truncated", action="mask")],
        algorithm={"name": "grpo", "advantage": advantage},
    )
    [group] = judge(run, (0.0, 1.0), stops={0: "length"})
    assert group.state == Group.State.DROPPED and violations() == []
    assert group.reason == (
        "1 of 2 rollouts are left to learn from, and `grpo` compares only these; a group needs at "
        "least 2"
    )


def test_shaped_reward_is_used_for_training(new_run, judge):
    run = new_run(pipeline=[step("arithmetic", operand="tokens", weight=-0.25)])
    judge(run, (1.0, 2.0))
    assert learned(run) == [0.0, 1.0]


def test_group_with_too_few_remaining_rollouts_is_dropped_with_the_reason(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", "groups", threshold=0.5)])
    [group] = judge(run, (0.0, 1.0))
    assert group.reason == "the pipeline kept 1 of 2 rollouts; a group needs at least 2"
    assert [cut.operator for cut in CutRollout.objects.all()] == ["reward_at_least"]


def test_refining_a_group_twice_counts_it_once(new_run, judge):
    run = new_run(pipeline=[step("reward_spread")])
    groups = judge(run, (0.0, 1.0), (1.0, 1.0))
    assert (
        refine(groups) == 0 and counts(run) == [("reward_spread", 4, 2)] and len(learned(run)) == 2
    )


@pytest.fixture
def breaks(monkeypatch):
    """Replace an operator by one that fails on the reward 0.25 while `is_broken` is true."""
    operator = find_operator("encoding")
    state = {"is_broken": True}

    def act(samples, options):
        if state["is_broken"] and any(sample.reward == 0.25 for sample in samples):
            raise ValueError("cannot read this")
        return operator.call(samples, options)

    monkeypatch.setattr(
        "apps.pipelines.applying.find_operator", lambda name: replace(operator, call=act)
    )
    return state


def attempts(run, times: int = 1) -> None:
    for _ in range(times):
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100, run))


def test_operator_that_fails_on_one_group_does_not_delay_others(new_run, judge, breaks):
    run = new_run(pipeline=[step("encoding")])
    bad, good = judge(run, (0.25, 1.0), (0.0, 1.0))
    assert good.state == Group.State.ADMITTED and (bad.state, bad.attempts) == (
        Group.State.JUDGED,
        1,
    )
    attempts(run, 2)
    bad.refresh_from_db()
    assert (bad.state, bad.reason) == (
        Group.State.DROPPED,
        "failed 3 times: encoding: ValueError: cannot read this",
    )
    assert violations() == []


def test_failed_group_is_refined_again_after_the_operator_is_fixed(new_run, judge, breaks):
    run = new_run(pipeline=[step("encoding")], group_attempts=1)
    [group] = judge(run, (0.25, 1.0))
    assert list(given_up(run)) == [group]
    breaks["is_broken"] = False
    assert refine_again(run) == 1 and not given_up(run).exists()
    attempts(run)
    group.refresh_from_db()
    run.refresh_from_db()
    assert (
        group.state == Group.State.ADMITTED
        and run.groups_dropped == 0
        and learned(run) == [0.25, 1.0]
    )
    assert violations() == []


def test_ended_run_cannot_refine_failed_groups_again(new_run, judge, breaks):
    run = new_run(pipeline=[step("encoding")], group_attempts=1)
    judge(run, (0.25, 1.0))
    run.stop()
    with pytest.raises(NotPossible, match="can no longer be refined"):
        refine_again(run)


def test_batch_is_planned_from_what_the_pipeline_kept(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("reward_at_least", "groups", threshold=0.4)])
    assert run.claim_trainer("t", 60)
    judge(run, (0.1, 0.5, 0.9), (0.4, 0.5, 0.9))
    assert plan_step(run, run.fence).items.count() == 5
