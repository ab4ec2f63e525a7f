"""A step's batch is fixed when it is planned, never stale, and trained once."""

import pytest
from django.db import IntegrityError, transaction

from apps.buffer.models import Experience, StepItem, batch_of, commit_step, plan_step
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Run, StaleFence, TrainStep


@pytest.fixture
def admit(finish):
    """Open, finish, score and refine groups of one right and one wrong rollout."""

    def admit_groups(run, groups=2, version=None):
        opened = finish(run, ["12345", "99999"], groups=groups, version=version)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        questions = open_questions(claimed)
        record_verdicts(
            claimed,
            [
                AnsweredQuestion(q, [Verdict(float(q.rollouts[0].text == "12345"), "test")])
                for q in questions
            ],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        return opened

    return admit_groups


@pytest.fixture
def fence(run):
    assert run.claim_trainer("t", 60)
    return run.fence


def test_no_step_is_planned_with_too_few_groups(run, fence, admit):
    admit(run, groups=1)
    assert plan_step(run, fence) is None


def test_step_takes_the_oldest_groups_in_order(run, fence, admit):
    admit(run, groups=4)
    batch = batch_of(plan_step(run, fence))
    assert [(e.group.draw_index, e.rollout.sample_index) for e in batch] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_planned_step_is_found_again_unchanged(run, fence, admit):
    admit(run, groups=4)
    first = plan_step(run, fence)
    again = plan_step(run, fence)
    assert again == first and [e.pk for e in batch_of(again)] == [e.pk for e in batch_of(first)]


def test_advantages_of_a_group_sum_to_zero(run, fence, admit):
    admit(run)
    assert sum(e.advantage for e in batch_of(plan_step(run, fence))) == pytest.approx(0)


def test_a_committed_step_trains_its_experiences_once(run, fence, admit):
    admit(run)
    step = plan_step(run, fence)
    with run.fenced(fence) as locked:
        commit_step(locked, step, fence)
    assert set(Experience.objects.values_list("state", "uses")) == {("trained", 1)}
    assert (
        Run.objects.get().step == 1 and TrainStep.objects.get().state == TrainStep.State.COMMITTED
    )


def test_experts_answer_may_be_used_by_as_many_steps_as_a_run_may_have(run, fence, admit):
    admit(run)
    step = plan_step(run, fence)
    Experience.objects.update(kind="expert", uses=9_999_999)
    with run.fenced(fence) as locked:
        commit_step(locked, step, fence)
    assert {experience.uses for experience in batch_of(step)} == {10_000_000}


def test_stale_experiences_are_dropped_and_counted(new_run, admit):
    run = new_run(max_staleness=0, steps=10)
    run.claim_trainer("t", 60)
    admit(run, groups=2, version=0)
    Run.objects.filter(pk=run.pk).update(step=1, published_version=1)
    assert plan_step(run, run.fence) is None
    assert set(Experience.objects.values_list("state", "reason")) == {
        ("dropped", "stale: older than version 1")
    }
    assert Run.objects.get().groups_dropped == 2


def test_trainer_with_an_expired_lease_cannot_plan(run, admit):
    run.claim_trainer("slow", 0)
    old = run.fence
    assert run.claim_trainer("quick", 60)
    admit(run)
    with pytest.raises(StaleFence):
        plan_step(run, old)


def test_no_step_is_planned_beyond_the_planned_steps(new_run, admit):
    run = new_run(steps=1)
    run.claim_trainer("t", 60)
    admit(run)
    step = plan_step(run, run.fence)
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    assert plan_step(run, run.fence) is None


def test_experience_is_unique_in_a_step(run, fence, admit):
    admit(run)
    item = StepItem.objects.filter(step=plan_step(run, fence)).first()
    with pytest.raises(IntegrityError), transaction.atomic():
        StepItem.objects.create(step=item.step, experience=item.experience, position=99)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_advantage_that_is_not_finite_is_rejected(run, fence, admit, bad):
    admit(run)
    with pytest.raises(IntegrityError), transaction.atomic():
        Experience.objects.update(advantage=bad)
