"""A taskset never changes: a corrected taskset is stored as the next version, and a run keeps the
version that it names.
"""

import threading
from collections import Counter

import pytest
from django.db import IntegrityError, connection, connections, transaction

from apps.dashboard.reconciliation import reconcile
from apps.runs.models import Run
from apps.tasksets.growing import grown_from_nothing
from apps.tasksets.ledger import tasksets_are_unchanged
from apps.tasksets.models import Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import Origin, store_taskset
from apps.tasksets.versions import slug_of_next

pytestmark = pytest.mark.django_db


def rows(*questions: str):
    return [TaskRow(user_message(question), {"value": question}, {}) for question in questions]


@pytest.fixture
def keep(project):
    def stored(slug: str, questions: str, before: Taskset | None = None) -> Taskset:
        return store_taskset(
            Origin(project, slug, slug, "test", version_of=before), rows(*questions)
        )

    return stored


def test_later_version_refers_to_the_first_and_counts_changes(keep):
    first = keep("sums", "aabc")
    second = keep("sums-v2", "acdd", first)
    third = keep("mended", "acd", first)  # any version may be given: the new one follows the newest
    assert [(one.first, one.version, one.added, one.removed) for one in (first, second, third)] == [
        (None, 1, 0, 0),
        (first, 2, 2, 2),
        (first, 3, 0, 1),
    ]
    assert [list(one.versions) for one in (first, second, third)] == [[third, second, first]] * 3
    assert list(keep("other", "a").versions) == [Taskset.objects.get(slug="other")]


@pytest.mark.parametrize(
    "before, after",
    [("abc", "abd"), ("abc", "cba"), ("aab", "abb"), ("ab", "abab"), ("abab", "ba")],
)
def test_added_and_removed_tasks_are_counted_correctly(keep, before, after):
    second = keep("second", after, keep("first", before))
    new = Counter(after) - Counter(before)
    gone = Counter(before) - Counter(after)
    assert (second.added, second.removed) == (new.total(), gone.total())


def test_import_without_changes_creates_no_version(keep):
    second = keep("sums-v2", "ba", keep("sums", "ab"))
    with pytest.raises(
        ValueError, match="nothing has changed: same tasks in the same order as 'sums-v2'"
    ):
        keep("sums-v3", "ba", second)
    assert Taskset.objects.count() == 2


def test_reverting_to_older_content_creates_a_version(keep):
    first = keep("sums", "ab")
    keep("sums-v2", "ac", first)
    assert keep("sums-v3", "ab", first).version == 3


def test_growing_tasksets_and_those_of_other_projects_get_no_next_version(keep, project):
    with pytest.raises(ValueError, match="collects the prompts of callers"):
        keep("second", "a", grown_from_nothing(project, "asked"))
    elsewhere = type(project).objects.create(slug="elsewhere", title="Elsewhere")
    with pytest.raises(ValueError, match="'sums' belongs to another project"):
        store_taskset(
            Origin(elsewhere, "sums", "Sums", "test", version_of=keep("sums", "a")), rows("b")
        )


def test_next_slug_counts_versions_and_fits_the_length_limit(keep):
    first = keep("sums", "a")
    assert slug_of_next(first) == "sums-v2"
    assert slug_of_next(keep("mended", "b", first)) == slug_of_next(first) == "sums-v3"
    assert slug_of_next(keep("n" * 50, "a")) == "n" * 47 + "-v2"


def test_database_refuses_inconsistent_version_numbers(keep, project):
    first = keep("sums", "a")
    keep("sums-v2", "b", first)
    for wrong in (
        {"first": first, "version": 2},
        {"first": first, "version": 1},
        {"first": None, "version": 2},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Taskset.objects.create(project=project, slug="wrong", title="", source="test", **wrong)


def test_run_keeps_the_taskset_version_that_it_names(keep, run, taskset, new_run):
    later = keep(slug_of_next(taskset), "ab", taskset)
    run.refresh_from_db()
    assert (run.tasksets, run.settings.taskset) == ([taskset], "sort") and run.tasks.count() == 4
    assert new_run(taskset="sort-v2").tasksets == [later] and new_run(taskset="sort").tasksets == [
        taskset
    ]
    assert list(Run.objects.drawing_from(later)) == [Run.objects.get(slug="run-1")]


def test_reconcile_reports_changed_and_missing_tasks(keep, run, taskset):
    keep("sums", "abc")
    grown_from_nothing(taskset.project, "asked")
    assert reconcile()["tasksets are unchanged"] == []
    tasks = taskset.tasks.order_by("index")
    tasks.filter(index=1).update(digest="f" * 64)
    assert [
        words.startswith("taskset sort: the tasks have digest")
        for words in tasksets_are_unchanged()
    ] == [True]
    tasks.filter(index=3).delete()
    assert list(tasksets_are_unchanged()) == ["taskset sort: 3 tasks for a size of 4"]


def test_reconcile_reports_a_version_without_its_predecessor(keep):
    third = keep("sums-v3", "c", keep("sums-v2", "b", keep("sums", "a")))
    Taskset.objects.filter(pk=third.pk).update(version=4)
    assert list(tasksets_are_unchanged()) == [
        "taskset sums-v3: version 4 of sums has no previous version"
    ]


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_are_ordered_and_do_not_block_creating_runs(
    keep, project, taskset, plan, policy
):
    is_reading = threading.Event()
    goes_on = threading.Event()
    second = []

    def slow():
        yield from rows("a")
        is_reading.set()
        assert goes_on.wait(60)

    def import_slowly():
        try:
            store_taskset(Origin(project, "slow", "Slow", "test", version_of=taskset), slow())
        finally:
            is_reading.set()
            connections.close_all()

    def import_at_once():
        try:
            second.append(keep("quick", "b", taskset))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=import_slowly), threading.Thread(target=import_at_once)]
    threads[0].start()
    assert is_reading.wait(60)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")  # fail if creating a run waits for the import
    Run.create(project=project, slug="meanwhile", title="Meanwhile", plan=plan())
    threads[1].start()
    goes_on.set()
    for thread in threads:
        thread.join(60)
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout")
    assert {one.slug: one.version for one in taskset.versions} in (
        {"sort": 1, "slow": 2, "quick": 3},
        {"sort": 1, "quick": 2, "slow": 3},
    )


def test_database_waits_for_rows_that_take_minutes(project):
    def slow():
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            limits.append(cursor.fetchone()[0])
        yield from rows("a")

    limits: list[str] = []
    store_taskset(Origin(project, "slow", "Slow", "test"), slow())
    assert limits == ["0"]
