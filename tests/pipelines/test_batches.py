"""Operators on the batch of an update: rows that they leave out are recorded and in no loss, and
each experience is trained once.
"""

from dataclasses import replace

import pytest

from apps.buffer.models import Experience, StepItem, batch_of, commit_step, plan_step
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.rollout_timeline import list_rollout_stages
from apps.dashboard.verdicts import verdict_on
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.batching import treat
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.crediting import credit_batch
from apps.pipelines.ledger import operator_counts_match_the_rows
from apps.pipelines.models import OperatorCount
from apps.pipelines.operators import find_operator
from apps.rollouts.models import Rollout

# These rules need engines and weights, which these runs do not have.
OTHERS = {"engines served what was published"}


def step(operator: str, **options: object) -> dict:
    return {"operator": operator, "stage": "batch", "options": options}


def planned(run):
    assert run.claim_trainer("t", 60)
    return plan_step(run, run.fence, credit_batch, treat)


def left_out(made) -> list[tuple[float, str]]:
    """Return the reward of each row, and the operator that leaves it out."""
    return [(row.reward, row.left_out.partition(":")[0]) for row in batch_of(made)]


def counts(run) -> list[tuple[str, int, int]]:
    return list(OperatorCount.objects.filter(run=run).values_list("operator", "given", "kept"))


def test_left_out_row_is_recorded_with_its_reason_and_keeps_its_position(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("advantage_above")])
    judge(run, (0.0, 0.5, 1.0), (0.0, 1.0, 1.0))
    made = planned(run)
    assert left_out(made) == [
        (0.0, ""),
        (0.5, "advantage_above"),
        (1.0, ""),
        (0.0, ""),
        (1.0, ""),
        (1.0, ""),
    ]
    item = made.items.exclude(left_out="").get()
    assert (
        item.left_out == "advantage_above: the absolute advantage 0 is not above 0"
        and item.position == 1
    )
    assert counts(run) == [("advantage_above", 6, 5)] and made.skipped == ""


def test_every_experience_of_the_batch_is_trained_once_even_if_rows_are_left_out(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    with run.fenced(run.fence):
        commit_step(run, made, run.fence)
    assert set(Experience.objects.values_list("state", "uses")) == {("trained", 1)}
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= OTHERS


def test_planning_a_step_again_returns_the_same_plan_and_counts_once(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    assert plan_step(run, run.fence, credit_batch, treat) == made and counts(run) == [
        ("reward_at_least", 4, 2)
    ]


def test_batch_operators_work_in_order_on_what_earlier_ones_kept(new_run, judge):
    run = new_run(
        pipeline=[step("reward_at_least", threshold=0.5), step("token_budget", max_tokens=4)]
    )
    judge(run, (0.0, 1.0), (0.0, 1.0))  # four tokens per reply
    made = planned(run)
    assert left_out(made) == [
        (0.0, "reward_at_least"),
        (1.0, ""),
        (0.0, "reward_at_least"),
        (1.0, "token_budget"),
    ]
    assert (
        counts(run) == [("reward_at_least", 4, 2), ("token_budget", 2, 1)]
        and list(operator_counts_match_the_rows()) == []
    )


def test_scaled_advantage_belongs_to_the_update_and_the_experience_keeps_its_own(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("advantages", max_advantage=0.5)])
    judge(run, (0.0, 0.5, 1.0), (0.0, 0.5, 1.0))
    made = planned(run)
    assert [row.credit.advantage for row in batch_of(made)] == [-0.5, 0.0, 0.5, -0.5, 0.0, 0.5]
    assert list(made.items.order_by("position").values_list("advantage", flat=True)) == [
        -0.5,
        None,
        0.5,
        -0.5,
        None,
        0.5,
    ]
    assert max(Experience.objects.values_list("advantage", flat=True)) > 0.9


def test_batch_operator_does_not_affect_how_batch_advantages_are_computed(new_run, judge):
    changes = {"algorithm": {"name": "grpo", "advantage": {"name": "grpo", "scale": "batch"}}}
    without = new_run(**changes)
    run = new_run(**changes, pipeline=[step("advantages", max_advantage=0.25)])
    for one in (without, run):
        judge(one, (0.0, 1.0), (0.0, 0.5))
    plain = [row.credit.advantage for row in batch_of(planned(without))]
    held = [row.credit.advantage for row in batch_of(planned(run))]
    assert held == [max(-0.25, min(0.25, advantage)) for advantage in plain] and max(plain) > 0.25


def test_step_whose_whole_batch_is_left_out_is_skipped_with_the_reason(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=9)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    assert (
        made.skipped
        == "the pipeline left nothing of the batch: reward_at_least: the reward 0 is below 9"
    )
    assert made.items.exclude(left_out="").count() == 4


def test_age_is_counted_up_to_the_trainers_version(new_run, judge):
    run = new_run(max_staleness=2, pipeline=[step("fresh", max_staleness=0)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    type(run).objects.filter(pk=run.pk).update(step=1)  # one step since they were sampled
    run.refresh_from_db()
    assert {reason for _, reason in left_out(planned(run))} == {"fresh"}


def test_failing_operator_plans_and_counts_nothing(new_run, judge, monkeypatch):
    def broken(samples, options):
        raise ValueError("cannot read this")

    run = new_run(pipeline=[step("length")])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    monkeypatch.setattr(
        "apps.pipelines.applying.find_operator",
        lambda name, known=find_operator: replace(known(name), call=broken),
    )
    with pytest.raises(OperatorFailed, match="length: ValueError: cannot read this"):
        planned(run)
    assert (
        not run.steps.exists()
        and counts(run) == []
        and set(Experience.objects.values_list("state", flat=True)) == {"ready"}
    )


def test_batch_operator_must_not_change_rewards(new_run, judge, monkeypatch):
    def shape(samples, options):
        return find_operator("arithmetic").call(
            samples, find_operator("arithmetic").read_options({"operand": "tokens"})
        )

    run = new_run(pipeline=[step("length")])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    monkeypatch.setattr(
        "apps.pipelines.applying.find_operator",
        lambda name, known=find_operator: replace(known(name), call=shape),
    )
    with pytest.raises(OperatorFailed, match="changed a reward"):
        planned(run)


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ({"name": "reinforce_plus_plus"}, "the tokens of a reply have different advantages"),
        ({"name": "raft"}, "imitates the best replies"),
    ],
)
def test_advantage_operator_is_refused_without_one_advantage_per_answer(
    project, taskset, plan, algorithm, why
):
    said = find_pipeline_problems(
        plan(algorithm=algorithm, pipeline=[step("advantages", max_advantage=1)]), project
    )
    assert why in said["pipeline.0.operator"]


def test_rollout_stages_state_the_update_that_left_the_answer_out(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    with run.fenced(run.fence):
        commit_step(run, made, run.fence)
    rollout = Rollout.objects.get(pk=made.items.get(position=0).experience.rollout_id)
    learned = list(rollout.experiences.all())
    verdict = verdict_on(rollout, learned)
    assert (
        verdict.words
        == "Admitted, but excluded from step 1 by reward_at_least: the reward 0 is below 0.5"
    )
    rollout.learned = learned
    rollout.judgements = []
    told = [station.words for station in list_rollout_stages(rollout, verdict, True)]
    assert "excluded from the loss by reward_at_least: the reward 0 is below 0.5" in told


def test_pipeline_without_batch_operators_leaves_nothing_out(new_run, judge):
    run = new_run(pipeline=[{"operator": "encoding"}])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    assert not StepItem.objects.filter(step=planned(run)).exclude(left_out="").exists() and counts(
        run
    ) == [("encoding", 4, 4)]
