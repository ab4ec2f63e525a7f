"""Operators on the batch of an update: what they leave out is on record, in no loss, and each experience is trained once."""

from dataclasses import replace

import pytest

from apps.buffer.models import Experience, StepItem, batch_of, commit_step, plan_step
from apps.dashboard.lives import life_of
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.verdicts import verdict_on
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.batching import treat
from apps.pipelines.checking import problems_of
from apps.pipelines.crediting import of_batch
from apps.pipelines.ledger import what_operators_left_out_is_on_record
from apps.pipelines.models import OperatorCount
from apps.pipelines.operators import find
from apps.rollouts.models import Rollout

# Checked against engines and weights that these runs have not.
OTHERS = {"engines served what was published"}


def step(operator: str, **options: object) -> dict:
    return {"operator": operator, "stage": "batch", "options": options}


def planned(run):
    assert run.claim_trainer("t", 60)
    return plan_step(run, run.fence, of_batch, treat)


def left_out(made) -> list[tuple[float, str]]:
    """Of each row what was earned, and by which operator it is left out."""
    return [(row.reward, row.left_out.partition(":")[0]) for row in batch_of(made)]


def counts(run) -> list[tuple[str, int, int]]:
    return list(OperatorCount.objects.filter(run=run).values_list("operator", "given", "kept"))


def test_a_row_that_is_left_out_is_recorded_with_its_reason_and_keeps_its_place(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("advantage_above")])
    judge(run, (0.0, 0.5, 1.0), (0.0, 1.0, 1.0))
    made = planned(run)
    assert left_out(made) == [(0.0, ""), (0.5, "advantage_above"), (1.0, ""), (0.0, ""), (1.0, ""), (1.0, "")]
    item = made.items.exclude(left_out="").get()
    assert item.left_out == "advantage_above: its advantage, 0, is no farther from 0 than 0" and item.position == 1
    assert counts(run) == [("advantage_above", 6, 5)] and made.skipped == ""


def test_all_of_it_is_trained_once_whatever_is_left_out(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    with run.fenced(run.fence):
        commit_step(run, made, run.fence)
    assert set(Experience.objects.values_list("state", "uses")) == {("trained", 1)}
    violations = {name: found for name, found in reconcile().items() if found}
    assert set(violations) <= OTHERS


def test_a_plan_that_is_found_again_is_neither_made_nor_counted_twice(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    assert plan_step(run, run.fence, of_batch, treat) == made and counts(run) == [("reward_at_least", 4, 2)]


def test_operators_work_in_their_order_on_what_those_before_them_left(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5), step("token_budget", most=4)])
    judge(run, (0.0, 1.0), (0.0, 1.0))  # four tokens an answer
    made = planned(run)
    assert left_out(made) == [(0.0, "reward_at_least"), (1.0, ""), (0.0, "reward_at_least"), (1.0, "token_budget")]
    assert counts(run) == [("reward_at_least", 4, 2), ("token_budget", 2, 1)] and list(what_operators_left_out_is_on_record()) == []


def test_advantages_are_scaled_for_the_update_and_the_experience_keeps_its_own(new_run, judge):
    run = new_run(group_size=3, pipeline=[step("advantages", most=0.5)])
    judge(run, (0.0, 0.5, 1.0), (0.0, 0.5, 1.0))
    made = planned(run)
    assert [row.credit.advantage for row in batch_of(made)] == [-0.5, 0.0, 0.5, -0.5, 0.0, 0.5]
    assert list(made.items.order_by("position").values_list("advantage", flat=True)) == [-0.5, None, 0.5, -0.5, None, 0.5]
    assert max(Experience.objects.values_list("advantage", flat=True)) > 0.9


def test_what_advantages_of_the_whole_update_are_made_of_is_not_touched(new_run, judge):
    changes = {"algorithm": {"name": "grpo", "advantage": {"name": "grpo", "scale": "batch"}}}
    without, run = new_run(**changes), new_run(**changes, pipeline=[step("advantages", most=0.25)])
    for one in (without, run):
        judge(one, (0.0, 1.0), (0.0, 0.5))
    plain = [row.credit.advantage for row in batch_of(planned(without))]
    held = [row.credit.advantage for row in batch_of(planned(run))]
    assert held == [max(-0.25, min(0.25, advantage)) for advantage in plain] and max(plain) > 0.25


def test_an_update_of_which_nothing_is_left_is_skipped_and_says_why(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=9)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    assert made.skipped == "its pipeline leaves nothing of the batch: reward_at_least: its reward, 0, is under 9"
    assert made.items.exclude(left_out="").count() == 4


def test_age_is_counted_to_the_trainers_version(new_run, judge):
    run = new_run(max_staleness=2, pipeline=[step("fresh", most=0)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    type(run).objects.filter(pk=run.pk).update(step=1)  # an update was made since they were sampled
    run.refresh_from_db()
    assert {reason for _, reason in left_out(planned(run))} == {"fresh"}


def test_an_operator_that_breaks_plans_nothing_and_counts_nothing(new_run, judge, monkeypatch):
    def broken(samples, options):
        raise ValueError("cannot read this")

    run = new_run(pipeline=[step("length")])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    monkeypatch.setattr("apps.pipelines.applying.find", lambda name, known=find: replace(known(name), call=broken))
    with pytest.raises(OperatorFailed, match="length: ValueError: cannot read this"):
        planned(run)
    assert not run.steps.exists() and counts(run) == [] and set(Experience.objects.values_list("state", flat=True)) == {"ready"}


def test_an_operator_may_not_shape_rewards_whose_advantages_are_made(new_run, judge, monkeypatch):
    def shape(samples, options):
        return find("arithmetic").call(samples, find("arithmetic").read_options({"by": "tokens"}))

    run = new_run(pipeline=[step("length")])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    monkeypatch.setattr("apps.pipelines.applying.find", lambda name, known=find: replace(known(name), call=shape))
    with pytest.raises(OperatorFailed, match="changed a reward"):
        planned(run)


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [
        ({"name": "reinforce_plus_plus"}, "tokens of one answer have different ones"),
        ({"name": "raft"}, "imitates the best answers"),
    ],
)
def test_what_goes_by_advantages_is_refused_where_there_is_not_one_for_each_answer(project, taskset, plan, algorithm, why):
    said = problems_of(plan(algorithm=algorithm, pipeline=[step("advantages", most=1)]), project)
    assert why in said["pipeline.0.operator"]


def test_an_answers_page_says_in_which_update_it_was_left_out(new_run, judge):
    run = new_run(pipeline=[step("reward_at_least", threshold=0.5)])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    made = planned(run)
    with run.fenced(run.fence):
        commit_step(run, made, run.fence)
    rollout = Rollout.objects.get(pk=made.items.get(position=0).experience.rollout_id)
    learned = list(rollout.experiences.all())
    verdict = verdict_on(rollout, learned)
    assert verdict.words == "Admitted, and left out of step 1 by reward_at_least: its reward, 0, is under 0.5"
    rollout.learned, rollout.judgements = learned, []
    told = [station.words for station in life_of(rollout, verdict, True)]
    assert "left out of its loss by reward_at_least: its reward, 0, is under 0.5" in told


def test_without_operators_on_the_batch_nothing_is_left_out(new_run, judge):
    run = new_run(pipeline=[{"operator": "encoding"}])
    judge(run, (0.0, 1.0), (0.0, 1.0))
    assert not StepItem.objects.filter(step=planned(run)).exclude(left_out="").exists() and counts(run) == [("encoding", 4, 4)]
