"""A snapshot is frozen once; the lessons of each step are fixed when it is planned, and are the
same for the same seed.
"""

from collections import Counter
from itertools import chain

import pytest
from django.db import IntegrityError, transaction

from apps.buffer.models import Snapshot, StepLesson, commit_step, list_lessons, plan_lessons
from apps.dashboard.reconciliation import reconcile
from apps.feedback.lesson_snapshots import (
    LessonGone,
    freeze,
    lessons,
    require_unchanged,
    select_lessons,
)
from apps.feedback.models import Demonstration, Preference
from apps.rollouts.models import Group
from apps.runs.models import Run, StaleFence
from tests.feedback.teaching import demonstrate, prefer

pytestmark = pytest.mark.django_db
LESSONS = {"rewards": [], "group_size": 8, "groups_per_step": 16}


@pytest.fixture
def lesson_run(new_run, taskset):
    """Create and start a run of DPO over the taskset's preferences."""

    def make(rows: int = 2, name: str = "dpo", source: str = "preferences", **changes) -> Run:
        snapshot = {"source": source, "rows": rows, **changes.pop("snapshot", {})}
        run = new_run(**LESSONS, algorithm={"name": name}, snapshot=snapshot, **changes)
        assert run.claim_trainer("t", 60)
        return run

    return make


def commit(run: Run, step) -> None:
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    run.refresh_from_db()


def test_snapshot_contains_only_lessons_from_before_the_start_of_the_run(lesson_run, taskset):
    before = prefer(taskset)
    run = lesson_run()
    later = prefer(taskset, (0.5, 1.0))
    Preference.objects.filter(pk__in=[lesson.pk for lesson in later]).update(at="2100-01-01T00:00Z")
    assert lessons_in(freeze(run)) == [lesson.pk for lesson in before]


def lessons_in(snapshot: Snapshot) -> list[int]:
    return list(snapshot.items.order_by("position").values_list("lesson", flat=True))


def test_freezing_a_snapshot_again_changes_nothing(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run()
    first = freeze(run)
    Run.objects.filter(pk=run.pk).update(started_at="2100-01-01T00:00Z")
    run.refresh_from_db()
    prefer(taskset, (0.5, 1.0))
    again = freeze(run)
    assert (again.pk, again.digest, lessons_in(again)) == (
        first.pk,
        first.digest,
        lessons_in(first),
    )


def test_freezing_without_lessons_is_refused(lesson_run):
    with pytest.raises(ValueError, match="no preferences to train on"):
        freeze(lesson_run())
    assert not Snapshot.objects.exists()


def test_snapshot_filter_selects_lessons(lesson_run, taskset):
    prefer(taskset)
    mine = prefer(taskset, (2.0, 3.0))[4:]
    Preference.objects.filter(pk__in=[lesson.pk for lesson in mine]).update(source="mine.jsonl")
    assert set(
        select_lessons(lesson_run(snapshot={"imported_as": "mine.jsonl"})).values_list(
            "pk", flat=True
        )
    ) == {m.pk for m in mine}
    assert not select_lessons(lesson_run(snapshot={"taskset": "other"})).exists()


def test_changed_lesson_is_detected(lesson_run, taskset):
    prefer(taskset)
    snapshot = freeze(lesson_run())
    require_unchanged(snapshot)
    Preference.objects.filter(pk=lessons_in(snapshot)[1]).update(margin=9.0)
    with pytest.raises(LessonGone, match="differ from what was frozen"):
        require_unchanged(snapshot)


def test_missing_lesson_is_reported_by_id(lesson_run, taskset):
    prefer(taskset)
    snapshot = freeze(lesson_run())
    gone = lessons_in(snapshot)[2]
    Preference.objects.filter(pk=gone).delete()
    with pytest.raises(LessonGone, match=str(gone)):
        lessons("preferences", lessons_in(snapshot))
    assert reconcile()["snapshots are complete"] == [f"{snapshot}: 1 lessons no longer exist"]


def test_every_epoch_uses_each_lesson_once_in_a_different_order(lesson_run, taskset):
    prefer(taskset, (None, 1.0, 2.0))
    run = lesson_run(rows=4)
    snapshot = freeze(run)
    taken = []
    for _ in range(6):
        step = plan_lessons(run, run.fence)
        taken.append(list_lessons(step))
        commit(run, step)
    epochs = [[*chain(*taken[:3])], [*chain(*taken[3:])]]
    assert [Counter(epoch) for epoch in epochs] == [Counter(lessons_in(snapshot))] * 2
    assert epochs[0] != epochs[1]


def test_planned_step_is_found_again_unchanged(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run()
    freeze(run)
    first = plan_lessons(run, run.fence)
    again = plan_lessons(run, run.fence)
    assert (again.pk, list_lessons(again)) == (first.pk, list_lessons(first))


def test_two_runs_with_one_seed_use_the_same_lessons(lesson_run, taskset):
    prefer(taskset, (None, 1.0))
    orders = []
    for run in (lesson_run(seed=3), lesson_run(seed=3), lesson_run(seed=4)):
        freeze(run)
        orders.append(list_lessons(plan_lessons(run, run.fence)))
    assert orders[0] == orders[1] != orders[2]


def test_batch_larger_than_its_snapshot_repeats_lessons(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run(rows=6)
    freeze(run)
    assert sorted(Counter(list_lessons(plan_lessons(run, run.fence))).values()) == [1, 1, 2, 2]


def test_position_in_a_step_is_unique(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run()
    item = freeze(run).items.first()
    step = plan_lessons(run, run.fence)
    with pytest.raises(IntegrityError), transaction.atomic():
        StepLesson.objects.create(step=step, item=item, position=0)


def test_trainer_with_an_old_fence_cannot_plan(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run()
    freeze(run)
    with pytest.raises(StaleFence):
        plan_lessons(run, run.fence - 1)
    assert not run.steps.exists()


def test_no_step_is_planned_after_the_last_one(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run(steps=1)
    freeze(run)
    commit(run, plan_lessons(run, run.fence))
    assert plan_lessons(run, run.fence) is None


def test_no_group_is_opened_for_a_lesson_run(lesson_run, taskset):
    prefer(taskset)
    run = lesson_run()
    assert Group.open(run, "explorer", 60, 10, 0) == []
    assert run in Run.objects.running() and run not in Run.objects.exploring()


def test_reconcile_finds_nothing_in_a_lesson_run(lesson_run, taskset):
    demonstrate(taskset)
    run = lesson_run(name="sft", source="demonstrations")
    freeze(run)
    commit(run, plan_lessons(run, run.fence))
    assert not {name: found for name, found in reconcile().items() if found}
    assert Demonstration.objects.count() == 4
