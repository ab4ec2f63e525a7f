"""Row locks, and retries of transactions that PostgreSQL aborts because of a conflict."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.locking import (
    ATTEMPTS,
    is_conflict,
    lock_first,
    lock_ids,
    lock_one,
    lock_rows,
    retrying,
)
from apps.feedback import known_items
from apps.feedback.suspicions.raising import _keep
from apps.rewards.hacking.rows import Finding, JudgedReplies
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.streaming.models import Event
from tests.locks import somebody_waits


def sql_of(work) -> list[str]:
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        work()
    return [query["sql"].partition(" FOR ")[2] for query in seen if " FOR " in query["sql"]]


@pytest.mark.parametrize(
    ("work", "locks"),
    [
        (lambda: lock_rows(Run.objects.all()), 'NO KEY UPDATE OF "runs_run"'),
        (
            lambda: lock_rows(Run.objects.all(), skip_locked=True),
            'NO KEY UPDATE OF "runs_run" SKIP LOCKED',
        ),
        (
            lambda: lock_ids(Group.objects.filter(run__state="running")),
            'NO KEY UPDATE OF "rollouts_group"',
        ),
        (
            lambda: lock_first(Group.objects.select_related("run"), "run"),
            'NO KEY UPDATE OF "runs_run", "rollouts_group"',
        ),
        (
            lambda: lock_first(Group.objects.filter(run__state="x")),
            'NO KEY UPDATE OF "rollouts_group"',
        ),
    ],
)
def test_lock_covers_only_the_named_tables_and_not_their_keys(db, work, locks):
    assert sql_of(work) == [locks]


def test_lock_of_a_values_query_is_refused(db):
    with pytest.raises(TypeError, match="objects"):
        lock_rows(Run.objects.values("pk"))


def test_lock_one_raises_and_lock_first_returns_none_if_there_is_no_row(run):
    with transaction.atomic():
        assert lock_one(Run.objects.filter(pk=run.pk)) == run
        assert lock_first(Run.objects.filter(pk=0)) is None
        with pytest.raises(Run.DoesNotExist):
            lock_one(Run.objects.filter(pk=0))


# -- two connections -----------------------------------------------------------------------------


@pytest.fixture
def other():
    """Run work in a thread with its own database connection."""

    def on_a_connection_of_its_own(work):
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(on_a_connection_of_its_own, work)


def make_gold(run, group, by):
    def work():
        own = Run.objects.get(pk=run.pk)
        rollouts = known_items.candidates(own, [group.rollouts.first().pk])
        known_items.create_known_item(own, rollouts, "gold", {"stars": 4}, "because", by)

    return work


def raise_suspicion(run, group, by):
    finding = Finding("words", {})
    return lambda: _keep(Run.objects.get(pk=run.pk), "repetition", finding, JudgedReplies(rows=[]))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("insert", [make_gold, raise_suspicion])
def test_insert_that_references_a_run_does_not_wait_for_its_trainer(
    new_run, finish, alice, other, eventually, insert
):
    """The insert locks the run by its foreign key, then the topic; the trainer locks the run, then
    the topic.
    """
    run = new_run(people={"form": "stars"})
    [group] = finish(run)
    run.claim_trainer("trainer", 60)
    with run.fenced(run.fence) as locked:
        written = other(insert(run, group, alice))
        eventually(lambda: written.done() or somebody_waits())
        locked.topic.record("step_committed", step=1)
    written.result()
    assert Event.objects.filter(topic=run.topic).count() >= 3


def crossing(runs, barrier):
    """Lock both runs in turn; on the first call, wait until the peer has locked one too."""
    calls = []

    def work():
        calls.append(1)
        with transaction.atomic():
            Run.locked(runs[0].pk)
            if len(calls) == 1:
                barrier.wait(30)
            Run.objects.filter(pk=runs[1].pk).update(waiting_on=f"after {len(calls)} calls")
        return len(calls)

    return work


@pytest.mark.django_db(transaction=True)
def test_deadlock_is_retried(new_run, other):
    runs = [new_run(), new_run()]
    barrier = threading.Barrier(2)
    peer = other(retrying(crossing(runs[::-1], barrier)))
    # One transaction is the first victim. On a busy machine it may meet the other again.
    attempts = [retrying(crossing(runs, barrier))(), peer.result()]
    assert 2 <= max(attempts) <= ATTEMPTS


@pytest.mark.django_db(transaction=True)
def test_one_transaction_fails_in_a_deadlock_without_retrying(new_run, other):
    runs = [new_run(), new_run()]
    barrier = threading.Barrier(2)
    peer = other(crossing(runs[::-1], barrier))
    errors = []
    for result in (crossing(runs, barrier), peer.result):
        try:
            result()
        except OperationalError as error:
            errors.append(error)
    assert len(errors) == 1 and is_conflict(errors[0])


@pytest.mark.django_db(transaction=True)
def test_serialization_failure_is_retried(run, other):
    calls = []

    @retrying
    def count_step():
        calls.append(1)
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = Run.objects.get(pk=run.pk).step
            if len(calls) == 1:
                other(lambda: Run.objects.filter(pk=run.pk).update(step=1)).result()
            Run.objects.filter(pk=run.pk).update(step=before + 1)

    count_step()
    run.refresh_from_db()
    assert (run.step, len(calls)) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_other_database_errors_are_raised_without_a_retry(run):
    calls = []

    @retrying
    def wait_too_long():
        calls.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 10")
            try:
                cursor.execute("SELECT pg_sleep(5)")
            finally:
                cursor.execute("RESET statement_timeout")

    with pytest.raises(OperationalError) as raised:
        wait_too_long()
    assert len(calls) == 1 and not is_conflict(raised.value)
