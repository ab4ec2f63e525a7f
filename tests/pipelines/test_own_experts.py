"""A run that imitates its own best replies: expert rows are created once from samples, counted and
shown.
"""

from uuid import uuid4

import pytest
from django.urls import reverse

from apps.buffer.models import Experience, batch_of, commit_step, plan_step
from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.dashboard.reconciliation.lessons import (
    expert_rollouts_match_their_demonstrations,
    expert_rows_name_their_parents,
)
from apps.dashboard.reconciliation.training import trained_experiences_belong_to_committed_steps
from apps.feedback.models import Suspicion
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.suspicions import acting
from apps.lineage.replaying.creating import NothingToReplay, propose
from apps.lineage.tracing import forward, trace_weights
from apps.pipelines.asking import answer_operators
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.deciding import decide_groups
from apps.pipelines.dry_run import dry_run
from apps.pipelines.models import OperatorCount, OwnExpert
from apps.pipelines.refining import load_cases, refine
from apps.pipelines.synthesizing import put_made
from apps.rollouts.models import Group, Rollout
from apps.runs.models import WeightVersion

MIX = {"name": "mix", "expert": {"ratio": 1 / 3, "mu": 0.2, "source": "buffer"}}
BEST = {"operator": "best_answers"}


@pytest.fixture
def imitating(new_run):
    """Return a function that starts a MIX run which creates expert rows, with 2 groups of 2 and up
    to 2 expert rows per step, and the trainer's lease claimed.
    """

    def make(*pipeline: dict, **changes: object):
        run = new_run(**{"algorithm": MIX, "pipeline": list(pipeline) or [BEST], **changes})
        assert run.claim_trainer("t", 60)
        return run

    return make


def rows(run) -> list[Experience]:
    return list(Experience.objects.expert().filter(run=run).order_by("rollout"))


def violations() -> list[str]:
    checks = (
        groups_match_their_counters,
        trained_experiences_belong_to_committed_steps,
        expert_rollouts_match_their_demonstrations,
        expert_rows_name_their_parents,
    )
    return [why for find in checks for why in find()]


def update(run) -> None:
    step = plan_step(run, run.fence)
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)


def test_best_answer_becomes_an_expert_row_with_its_own_tokens(imitating, judge):
    run = imitating()
    [group] = judge(run, (0.0, 1.0))
    best = group.rollouts.get(sample_index=1)
    [row] = rows(run)
    assert (row.rollout, row.state, row.reward, row.advantage) == (best, "ready", 1.0, 0.0)
    assert sorted(best.experiences.values_list("kind", flat=True)) == ["expert", "usual"]
    made = OwnExpert.objects.get()
    assert (made.rollout, made.task, made.number, made.operator) == (
        best,
        group.task,
        1,
        "best_answers",
    )
    assert list(OperatorCount.objects.values_list("given", "kept", "made")) == [(2, 2, 1)]
    assert violations() == []


def test_answer_that_a_later_operator_removes_becomes_no_expert_row(imitating, judge):
    run = imitating(
        BEST, {"operator": "length", "stage": "experiences", "options": {"max_tokens": 3}}
    )
    judge(run, (0.0, 1.0))
    assert rows(run) == [] and not OwnExpert.objects.exists()
    assert list(
        OperatorCount.objects.filter(operator="best_answers").values_list("made", flat=True)
    ) == [0]


def test_run_without_the_operator_makes_no_expert_rows(imitating, judge):
    run = imitating({"operator": "reward_spread"})
    judge(run, (0.0, 1.0))
    assert rows(run) == [] and not run.settings.makes_experts


def test_repeated_task_gets_no_second_expert_row_with_the_same_text(imitating, judge):
    run = imitating(max_staleness=8)
    judge(run, *[(0.0, 1.0)] * 8)  # each of its four tasks twice
    assert run.groups.count() == 8 and len(rows(run)) == 4
    assert sorted(OwnExpert.objects.values_list("task", flat=True)) == sorted(
        run.taskset.tasks.values_list("pk", flat=True)
    )


def test_task_gets_further_expert_rows_with_other_texts_up_to_the_limit(imitating, judge):
    run = imitating({**BEST, "options": {"max_answers": 2}}, max_staleness=16, group_size=3)
    for best in range(3):
        judge(run, *[tuple(float(n == best) for n in range(3))] * 4)
    numbers = (
        OwnExpert.objects.filter(run=run)
        .order_by("task", "number")
        .values_list("number", flat=True)
    )
    assert list(numbers) == [1, 2] * 4


def test_second_of_two_refiners_with_the_same_number_makes_no_row(imitating, judge):
    run = imitating()
    [group] = judge(run, (0.0, 1.0))
    [decision] = decide_groups(
        run.settings,
        answer_operators(run.settings.pipeline, load_cases([Group.objects.get(pk=group.pk)])),
    )
    OwnExpert.objects.update(
        rollout=group.rollouts.get(sample_index=0)
    )  # as if the other refiner had used another reply
    Experience.objects.expert().delete()
    assert (
        put_made(decision).total() == 1
        and not Experience.objects.expert().filter(rollout__sample_index=1).exists()
    )


# -- updates


def test_update_uses_available_expert_rows_without_waiting_for_more(imitating, judge):
    run = imitating(max_staleness=2)
    judge(run, (0.0, 1.0), (0.5, 0.0))  # only one of the two rewards is high enough
    step = plan_step(run, run.fence)
    assert [one.kind for one in batch_of(step)] == ["usual"] * 4 + ["expert"]
    update(run)
    [row] = rows(run)
    assert (row.state, row.uses) == ("ready", 1)
    judge(run, (0.0, 0.0), (0.0, 1.0), (0.0, 1.0))
    later = plan_step(run, run.fence)
    assert [one.kind for one in batch_of(later)].count("expert") == 2 and violations() == []


def test_rating_behind_an_expert_row_is_traced_to_every_update_with_the_row(imitating, judge, bob):
    run = imitating(people={"per_group": 1, "weight": 1.0, "deadline_s": 60}, max_staleness=4)
    waiting = judge(run, *[(0.0, 0.5)] * 4)
    stars = [
        give(bob, Stars(group.rollouts.get(sample_index=0).pk, stars, uuid4()))
        for group, stars in zip(waiting, (5, 5, 4, 4), strict=True)
    ]
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    update(run)
    update(run)
    assert [use.step.number for use in forward(stars[0]).uses] == [1, 2]
    assert [use.step.number for use in forward(stars[2]).uses] == [2]
    newest, first = trace_weights(WeightVersion(run=run, step=2))[0]
    assert {rating.pk for rating in newest.ratings} == {
        rating.pk for rating in stars
    } and newest.rollouts == 4
    assert {rating.pk for rating in first.ratings} == {rating.pk for rating in stars[:2]}


def test_expert_rows_suspected_of_hacking_are_no_longer_used(imitating, judge, alice):
    run = imitating(max_staleness=4)
    bad, good = judge(run, (0.0, 1.0), (0.0, 1.0))
    update(run)
    evidence = [bad.rollouts.get(sample_index=1).pk]
    suspicion = Suspicion.objects.create(
        run=run, kind="to_judge", words="it pleads", evidence=evidence, first_step=1, last_step=1
    )
    assert acting.drop_evidence(suspicion, alice)["groups"] == 0
    judge(run, (0.0, 0.5), (0.0, 0.5))
    taken = [
        one.rollout.group for one in batch_of(plan_step(run, run.fence)) if one.kind == "expert"
    ]
    assert taken == [good] and violations() == []


def test_rollout_list_filters_by_the_state_of_the_sample_not_of_its_expert_row(
    imitating, judge, client, alice
):
    run = imitating()
    [group] = judge(run, (0.0, 1.0))
    Experience.objects.leave_out(run, [group.pk], "stale: older than version 1")
    client.force_login(alice)
    address = reverse("rollouts", args=[run.project.slug, run.slug])
    assert len(client.get(address, {"fate": "dropped"}).context["rows"]) == 2
    assert not list(client.get(address, {"fate": "admitted"}).context["rows"])


# -- pages


def test_dry_run_shows_the_expert_rows_and_writes_nothing(imitating, judge):
    run = imitating({"operator": "reward_spread"})
    [group] = judge(run, (0.0, 1.0))
    [line] = dry_run(
        run, run.settings.model_validate({**run.config, "pipeline": [BEST]}).pipeline
    ).lines
    assert (line.made, [row.of.rollout for row in line.rows]) == (
        1,
        [group.rollouts.get(sample_index=1).pk],
    )
    assert rows(run) == []


def test_dry_run_shows_expert_rows_that_exist_already(imitating, judge):
    run = imitating()
    judge(run, (0.0, 1.0))
    assert [line.made for line in dry_run(run, run.settings.pipeline).lines] == [1] and len(
        rows(run)
    ) == 1


def test_pages_show_the_expert_row(imitating, judge, client, alice):
    run = imitating()
    [group] = judge(run, (0.0, 1.0))
    client.force_login(alice)
    best = group.rollouts.get(sample_index=1)
    life = client.get(reverse("rollout", args=[best.pk])).content.decode()
    assert "Added as expert row" in life and "the reward 1 is the best of 2" in life
    other = client.get(
        reverse("rollout", args=[group.rollouts.get(sample_index=0).pk])
    ).content.decode()
    assert "Added as expert row" not in other
    address = [run.project.slug, run.slug]
    assert "</span> row made" in client.get(reverse("run-pipeline", args=address)).content.decode()
    tried = client.post(
        reverse("run-pipeline-try", args=address), {"pipeline": "- operator: best_answers"}
    ).content.decode()
    assert "1 row made" in tried and "an expert row: the reward" in tried


# -- refused


def test_operator_is_refused_if_the_algorithm_uses_no_expert_rows(plan, project):
    found = find_pipeline_problems(plan(pipeline=[BEST]), project)
    wanted = "choose `mix`, or set algorithm.expert.ratio and mu above 0"
    assert found == {"pipeline.0.operator": f"makes expert rows, but `grpo` uses none: {wanted}"}
    assert find_pipeline_problems(plan(pipeline=[BEST], algorithm=MIX), project) == {}


def test_replay_of_a_run_trained_on_its_own_experts_is_refused(imitating, judge):
    run = imitating()
    judge(run, (0.0, 1.0), (0.0, 1.0))
    update(run)
    run.refresh_from_db()
    with pytest.raises(NothingToReplay, match="from its replies: it can’t be replayed"):
        propose(run)


def test_reconcile_reports_an_expert_row_without_a_source(imitating, judge):
    run = imitating()
    judge(run, (0.0, 1.0))
    OwnExpert.objects.all().delete()
    assert any("expert experience without a source" in why for why in violations())
    assert Rollout.objects.filter(own_expert=None).count() == 2
