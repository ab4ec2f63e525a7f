"""Demonstrations as expert rollouts: once per run, beside the sampled groups, in batches by the
configured share.
"""

import pytest

from apps.buffer.models import Experience, batch_of, commit_step, experts_missing, plan_step
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.feedback.experts import admit_demonstrations, list_unadmitted_demonstrations
from apps.feedback.lesson_snapshots import select_lessons
from apps.feedback.models import Demonstration, ExpertAnswer
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.rollouts.payload import Tokens
from apps.runs.models import Run, StaleFence
from tests.feedback.teaching import demonstrate, lesson

pytestmark = pytest.mark.django_db


@pytest.fixture
def mixed(new_run):
    """Return a function that starts a MIX run with 2 groups of 2 and 2 expert rows (a third of the
    batch), with its trainer lease taken.
    """

    def make(source: str = "buffer", ratio: float = 1 / 3, **changes) -> Run:
        run = new_run(
            algorithm={"name": "mix", "expert": {"ratio": ratio, "mu": 0.2, "source": source}},
            **changes,
        )
        assert run.claim_trainer("t", 60)
        return run

    return make


@pytest.fixture
def explore(finish):
    """Return a function that admits groups of one right and one wrong rollout."""

    def admit_groups(run: Run, groups: int = 2) -> None:
        finish(run, ["12345", "99999"], groups=groups)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        record_verdicts(
            claimed,
            [
                AnsweredQuestion(q, [Verdict(float(q.rollouts[0].text == "12345"), "test")])
                for q in open_questions(claimed)
            ],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))

    return admit_groups


def spelt(demonstrations):
    return [
        (
            d,
            Tokens(
                (1, 2), tuple(d.answer.encode()), (0.0,) * len(d.answer), (1,) * len(d.answer), ()
            ),
        )
        for d in demonstrations
    ]


def take_in(run: Run) -> int:
    return admit_demonstrations(run, run.fence, spelt(list_unadmitted_demonstrations(run)))


def test_a_demonstration_becomes_one_expert_experience(mixed, taskset):
    demonstrations = demonstrate(taskset, 2)
    run = mixed()
    assert take_in(run) == 8
    experts = Experience.objects.expert().filter(run=run)
    assert {(e.state, e.reward, e.rollout.origin) for e in experts} == {("ready", None, "expert")}
    assert set(Rollout.objects.values_list("text", "group__task")) == {
        (d.answer, d.task_id) for d in demonstrations
    }
    assert Group.objects.filter(run=run, draw_index=None, size=0).count() == 4


def test_admitting_a_demonstration_again_changes_nothing(mixed, taskset):
    demonstrations = demonstrate(taskset)
    run = mixed()
    assert take_in(run) == 4
    assert admit_demonstrations(run, run.fence, spelt(demonstrations)) == 0
    assert (ExpertAnswer.objects.count(), Rollout.objects.count()) == (4, 4)


def test_later_demonstrations_are_admitted_later(mixed, taskset):
    demonstrate(taskset)
    run = mixed()
    take_in(run)
    task = taskset.tasks.first()
    later = lesson(Demonstration, task, answer="another way")
    later.save()
    assert list(list_unadmitted_demonstrations(run)) == [later]
    assert take_in(run) == 1
    assert sorted(
        Rollout.objects.filter(group__task=task).values_list("sample_index", flat=True)
    ) == [0, 1]


def test_demonstrations_of_another_taskset_are_not_admitted(mixed, taskset, project):
    other = type(taskset).objects.create(
        project=project, slug="other", title="o", source="t", size=1, digest="1"
    )
    other.tasks.create(
        index=0, prompt=[{"role": "user", "content": "1"}], answer={"sorted": "1"}, digest="1"
    )
    demonstrate(other)
    assert take_in(mixed()) == 0


def test_corrected_dialogue_turn_is_a_lesson_but_not_an_expert_row(mixed, taskset, new_run):
    run = mixed()
    about = {
        "project": taskset.project,
        "prompt": [{"role": "user", "content": "Sort."}, *taskset.tasks.first().prompt],
    }
    turn = Demonstration(**about, run=run, source="correction of rollout 1", answer="12345").keyed()
    turn.save()
    snapshot = {"source": "demonstrations", "rows": 2, "run": run.slug}
    learns = new_run(
        algorithm={"name": "sft"}, rewards=[], group_size=8, groups_per_step=16, snapshot=snapshot
    )
    assert list(select_lessons(learns)) == [turn] and take_in(run) == 0


def test_trainer_with_a_stale_fence_admits_nothing(mixed, taskset):
    demonstrate(taskset)
    run = mixed()
    with pytest.raises(StaleFence):
        admit_demonstrations(run, run.fence - 1, spelt(list_unadmitted_demonstrations(run)))
    assert not Rollout.objects.exists()


def test_batch_contains_the_configured_share_after_the_sampled_rows(mixed, taskset, explore):
    demonstrate(taskset)
    run = mixed()
    take_in(run)
    explore(run)
    kinds = [experience.kind for experience in batch_of(plan_step(run, run.fence))]
    assert kinds == ["usual"] * 4 + ["expert"] * 2


def test_no_step_is_planned_without_enough_experts(mixed, taskset, explore):
    run = mixed()
    explore(run)
    assert (plan_step(run, run.fence), experts_missing(run)) == (None, 2)
    demonstrate(taskset)
    take_in(run)
    assert experts_missing(run) == 0 and plan_step(run, run.fence)


def commit(run: Run, step) -> None:
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    run.refresh_from_db()


def test_every_expert_is_used_before_any_is_used_again(mixed, taskset, explore):
    demonstrate(taskset)
    run = mixed(max_staleness=100)
    take_in(run)
    taken = []
    for _ in range(4):
        explore(run)
        step = plan_step(run, run.fence)
        taken += [e.pk for e in batch_of(step) if e.kind == "expert"]
        commit(run, step)
    assert len(set(taken[:4])) == len(set(taken[4:])) == 4
    assert set(Experience.objects.expert().values_list("state", "uses")) == {("ready", 2)}
    assert set(Experience.objects.usual().values_list("state", "uses")) == {("trained", 1)}
    ignored = {"engines served what was published"}  # no engine runs here
    assert not {name: found for name, found in reconcile().items() if found and name not in ignored}


def test_same_prompt_uses_answers_to_the_tasks_of_the_step(mixed, taskset, explore):
    demonstrate(taskset, 2)
    run = mixed("same_prompt", groups_per_step=1, ratio=0.5)
    take_in(run)
    explore(run, groups=1)
    batch = batch_of(plan_step(run, run.fence))
    assert [e.kind for e in batch] == ["usual", "usual", "expert", "expert"]
    assert len({e.rollout.group.task_id for e in batch}) == 1


def test_same_prompt_trains_without_experts_when_there_is_no_answer(mixed, explore):
    run = mixed("same_prompt")
    explore(run)
    assert [e.kind for e in batch_of(plan_step(run, run.fence))] == ["usual"] * 4


def test_experts_are_not_in_the_group_ledger_and_never_retire(mixed, taskset, explore):
    demonstrate(taskset)
    run = mixed(max_staleness=0)
    take_in(run)
    explore(run)
    assert group_ledger(run)["issued"] == 2
    Experience.objects.retire_stale(run, 50)
    assert set(Experience.objects.expert().values_list("state", flat=True)) == {"ready"}
    assert set(Experience.objects.usual().values_list("state", flat=True)) == {"dropped"}
