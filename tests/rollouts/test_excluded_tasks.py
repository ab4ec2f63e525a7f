"""A task whose groups fail repeatedly is quarantined by its run, exactly once, and drawn again
after somebody releases it.
"""

import threading

import pytest
from django.db import connection, transaction

from apps.accounts.models import AuditEntry
from apps.feedback.suspicions.acting import _leave_out
from apps.rollouts.excluded_tasks import FailedGroup, LeftOut, quarantined, release_from_quarantine
from apps.rollouts.ledger import tasks_are_quarantined_for_their_failures
from apps.rollouts.models import Group, Outcome
from apps.runs.models import NotPossible, Run
from tests.conftest import tokens_of

WHY = "engine died: out of memory"


@pytest.fixture
def failing_run(new_run) -> Run:
    """Create a run whose groups may fail once; two failed groups of a task quarantine it.

    It draws sixteen groups in four rounds.
    """
    return new_run(
        group_attempts=1, task_attempts=2, max_staleness=9, selection={"name": "sequential"}
    )


def drawn(run: Run, count: int) -> list[Group]:
    groups = Group.open(run, "e", 60, count, run.published_version)
    assert len(groups) == count
    return groups


def fail_at(run: Run, index: int, groups: list[Group]) -> None:
    for group in groups:
        if group.task.index == index:
            group.fail(WHY)


def events(run: Run, kind: str) -> list[dict]:
    return list(
        run.topic.events.filter(kind=kind).order_by("sequence").values_list("payload", flat=True)
    )


def sound() -> bool:
    return list(tasks_are_quarantined_for_their_failures()) == []


def test_task_that_failed_the_maximum_times_is_quarantined_and_no_longer_drawn(failing_run):
    fail_at(failing_run, 2, drawn(failing_run, 4))
    assert FailedGroup.objects.count() == 1 and not LeftOut.objects.exists() and sound()
    fail_at(failing_run, 2, drawn(failing_run, 4))
    (row,) = quarantined(failing_run)
    assert (row.task.index, row.by, row.failures) == (2, None, 2)
    assert row.reason == f"2 of its groups failed, the last: failed 1 time: {WHY}"
    assert {group.task.index for group in drawn(failing_run, 8)} == {0, 1, 3}
    (told,) = events(failing_run, "task_quarantined")
    assert told == {"taskset": "sort", "index": 2, "failures": 2, "reason": row.reason} and sound()


def test_further_failures_of_groups_in_progress_do_not_quarantine_the_task_again(failing_run):
    fail_at(failing_run, 2, drawn(failing_run, 12))
    assert (
        FailedGroup.objects.count() == 3
        and LeftOut.objects.count() == 1
        and len(events(failing_run, "task_quarantined")) == 1
    )
    assert sound()


def test_dropped_groups_do_not_count_as_failures(failing_run):
    for group in drawn(failing_run, 12):
        group.drop("balance: sort makes up 0.9")
    assert not FailedGroup.objects.exists() and not LeftOut.objects.exists()


def test_last_task_of_a_run_is_never_quarantined(failing_run, alice):
    for group in drawn(failing_run, 12):
        group.fail(WHY)
    assert sorted(LeftOut.objects.values_list("task__index", flat=True)) == [0, 1, 2]
    assert {group.task.index for group in drawn(failing_run, 4)} == {3} and sound()


def test_failed_group_without_a_draw_does_not_count_against_its_task(failing_run):
    (group,) = drawn(failing_run, 1)
    Group.objects.filter(pk=group.pk).update(draw_index=None, size=0)
    group.refresh_from_db()
    group.fail(WHY)
    assert group.state == Group.State.DROPPED and not FailedGroup.objects.exists()


# -- workers that die or leave


def lapse(group: Group) -> None:
    """Let the lease of the group expire, as if its worker was killed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE rollouts_group SET lease_until = statement_timestamp() - interval '1 s' WHERE"
            " id = %s",
            [group.pk],
        )


@pytest.mark.parametrize("swept", [False, True], ids=["claimed", "swept first"])
def test_group_whose_workers_die_repeatedly_is_dropped_as_failed(new_run, swept):
    run = new_run(group_attempts=3, task_attempts=1, max_staleness=0, groups_per_step=2)
    group, other = drawn(run, 2)
    for attempt in (1, 2):
        lapse(group)
        if swept:
            assert Group.objects.expire() == 1
        (group,) = Group.objects.claim(Group.State.SAMPLING, "e", 60, 9)
        assert group.attempts == attempt
    lapse(group)
    assert Group.objects.claim(Group.State.SAMPLING, "e", 60, 9) == []
    group.refresh_from_db()
    assert (group.state, group.reason) == (
        "dropped",
        "failed 3 times: its worker stopped responding",
    )
    assert (
        [row.task for row in quarantined(run)] == [group.task]
        and other.task != group.task
        and sound()
    )
    assert Run.objects.get(pk=run.pk).groups_dropped == 1


def test_group_that_makes_progress_gets_all_its_attempts_back(new_run):
    run = new_run(group_size=2, group_attempts=2)
    (group,) = drawn(run, 1)
    first, second = group.rollouts.all()
    for rollout in (first, second):  # each time after a worker died
        lapse(group)
        (group,) = Group.objects.claim(Group.State.SAMPLING, "e", 60, 1)
        assert group.attempts == 1
        assert Group.finish_rollouts(
            {group.pk: group.claimed}, [Outcome(rollout.pk, tokens_of("1"), "1", "stop")]
        ) == {group.pk}
        group.refresh_from_db()
        assert group.attempts == 0
    (group,) = Group.objects.claim(Group.State.SCORING, "s", 60, 1)
    group.fail("no room")
    (group,) = Group.objects.claim(Group.State.SCORING, "s", 60, 1)
    assert group.attempts == 1
    group.move(Group.State.JUDGED)
    (group,) = Group.objects.claim(Group.State.JUDGED, "r", 60, 1)
    assert group.attempts == 0


def test_failed_rollout_does_not_reset_the_attempts_of_its_group(new_run):
    (group,) = drawn(new_run(group_size=2, group_attempts=3), 1)
    lapse(group)
    (group,) = Group.objects.claim(Group.State.SAMPLING, "e", 60, 1)
    Group.finish_rollouts(
        {group.pk: group.claimed}, [Outcome(group.rollouts.first().pk, None, "", "no engine")]
    )
    group.refresh_from_db()
    assert group.attempts == 1


def test_releasing_groups_counts_no_failed_attempt(failing_run):
    groups = drawn(failing_run, 2)
    assert len(Group.objects.release([group.claimed for group in groups])) == 2
    assert [
        group.attempts for group in Group.objects.claim(Group.State.SAMPLING, "other", 60, 9)
    ] == [0, 0]
    assert (
        Group.objects.release([group.claimed for group in groups]) == set()
    )  # another worker holds them by now


# -- concurrency and rollback


def test_rolled_back_failure_leaves_no_records(failing_run):
    fail_at(failing_run, 2, drawn(failing_run, 4))
    groups = drawn(failing_run, 4)
    with pytest.raises(KeyboardInterrupt), transaction.atomic():
        fail_at(failing_run, 2, groups)
        raise KeyboardInterrupt
    assert FailedGroup.objects.count() == 1 and not LeftOut.objects.exists()
    assert Run.objects.get(pk=failing_run.pk).groups_dropped == 1 and sound()


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_failures_of_a_task_quarantine_it_once(failing_run):
    groups = [group for group in drawn(failing_run, 8) if group.task.index == 1]
    barrier = threading.Barrier(2)
    troubles = []

    def fail(group: Group) -> None:
        try:
            barrier.wait(60)
            group.fail(WHY)
        except Exception as trouble:
            troubles.append(trouble)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=fail, args=(Group.objects.get(pk=group.pk),)) for group in groups
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert troubles == [] and len(threads) == 2
    assert LeftOut.objects.count() == 1 and FailedGroup.objects.count() == 2 and sound()
    assert len(events(failing_run, "task_quarantined")) == 1


# -- release


@pytest.fixture
def quarantine(failing_run) -> LeftOut:
    fail_at(failing_run, 2, drawn(failing_run, 8))
    return quarantined(failing_run).get()


def test_released_task_is_drawn_again_and_may_fail_as_often_as_before(
    failing_run, quarantine, alice
):
    assert release_from_quarantine(failing_run, quarantine.pk, alice) == quarantine.task
    assert events(failing_run, "task_released") == [{"taskset": "sort", "index": 2, "by": "alice"}]
    assert AuditEntry.objects.get(action="task released").details == {"taskset": "sort", "index": 2}
    fail_at(failing_run, 2, drawn(failing_run, 4))
    assert not LeftOut.objects.exists() and sound()
    fail_at(failing_run, 2, drawn(failing_run, 4))
    assert LeftOut.objects.count() == 1 and sound()


def test_task_cannot_be_released_twice_or_after_the_run_ended(failing_run, quarantine, alice):
    release_from_quarantine(failing_run, quarantine.pk, alice)
    with pytest.raises(NotPossible, match="not quarantined any more"):
        release_from_quarantine(failing_run, quarantine.pk, alice)
    failing_run.stop()
    with pytest.raises(NotPossible, match="samples no more tasks"):
        release_from_quarantine(failing_run, quarantine.pk, alice)


def test_task_left_out_by_a_person_is_not_quarantined_and_cannot_be_released(
    failing_run, quarantine, alice
):
    _leave_out(failing_run, {quarantine.task_id}, "suspected of hacking: guessed", alice)
    quarantine.refresh_from_db()
    assert (quarantine.by, quarantine.reason) == (alice, "suspected of hacking: guessed")
    assert not quarantined(failing_run).exists() and sound()
    with pytest.raises(NotPossible, match="not quarantined any more"):
        release_from_quarantine(failing_run, quarantine.pk, alice)


# -- the ledger


def test_ledger_reports_a_failed_task_that_is_still_drawn(failing_run, quarantine):
    assert sound()
    quarantine.delete()
    (said,) = tasks_are_quarantined_for_their_failures()
    assert said.endswith(f"task {quarantine.task_id} failed 2 times but is still sampled")


def test_ledger_reports_a_quarantine_without_its_failures(failing_run, quarantine):
    FailedGroup.objects.first().delete()
    (said,) = tasks_are_quarantined_for_their_failures()
    assert "for 1 failures of 2" in said


def test_ledger_reports_a_failure_of_a_group_in_progress(failing_run):
    (group,) = drawn(failing_run, 1)
    FailedGroup.objects.create(group=group, run=failing_run, task=group.task)
    (said,) = tasks_are_quarantined_for_their_failures()
    assert "which is sampling" in said


def test_task_left_out_for_another_reason_is_not_quarantined(failing_run, alice):
    fail_at(failing_run, 2, drawn(failing_run, 4))
    task = failing_run.tasks.get(index=2)
    row = LeftOut.objects.create(run=failing_run, task=task, reason="prompt_length: longer than 30")
    assert not quarantined(failing_run).exists() and sound()
    with pytest.raises(NotPossible, match="not quarantined any more"):
        release_from_quarantine(failing_run, row.pk, alice)
