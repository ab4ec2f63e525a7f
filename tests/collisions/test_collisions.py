"""All writers of a run at once: they lock in one order, and so without a deadlock."""

import itertools
import multiprocessing
import random
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest
from django.db import connection, connections, transaction

from apps.accounts import locking
from apps.accounts.models import Membership
from apps.runs.models import Run
from tests import profiles
from tests.collisions.order import ORDER, tables_locked_by, watched
from tests.collisions.writers import WRITERS, Scene

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
PAIRS = list(itertools.combinations_with_replacement(WRITERS, 2))
MAX_DELAY_S = 0.004  # the random delay of one of the two
A_ROUND_S = 30.0
MAX_SECONDS = 7_200.0 if profiles.IS_LONG else 1_800.0  # on a busy machine


@pytest.fixture
def scene(new_run, project, alice, bob) -> Scene:
    """Create a run with work for every worker."""
    Membership.objects.filter(user=bob).update(role=Membership.Role.RESEARCHER)
    run = new_run(
        steps=100_000,
        max_staleness=1_000,
        group_size=2,
        groups_per_step=2,
        people={"form": "stars", "per_group": 1},
    )
    run.claim_trainer("trainer", 3_600)
    return Scene(run.pk, alice, bob)


def settle_in(scene: Scene, rounds: int = 3) -> None:
    """Give every worker something to do."""
    for _ in range(rounds):
        for name in ("explorer", "scorer", "rating", "refiner", "watch"):
            WRITERS[name](scene)


# -- the order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ('SELECT 1 FROM "runs_run" FOR NO KEY UPDATE OF "runs_run"', {"runs_run"}),
        (
            (
                "WITH d AS (SELECT id FROM rollouts_group ORDER BY id FOR NO KEY UPDATE SKIP"
                " LOCKED) UPDATE rollouts_group g SET fence = 1"
            ),
            {"rollouts_group"},
        ),
        (
            "SELECT 1 FROM feedback_slot s JOIN rollouts_group g ON true FOR NO KEY UPDATE OF g, s",
            {"feedback_slot", "rollouts_group"},
        ),
        (
            "INSERT INTO runs_usage (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2",
            {"runs_usage"},
        ),
        ("INSERT INTO runs_run (a) VALUES (1) ON CONFLICT DO NOTHING", set()),
        ('DELETE FROM "rollouts_rollout"', {"rollouts_rollout"}),
        ('SELECT 1 FROM "runs_run"', set()),
    ],
)
def test_tables_locked_by_a_statement_are_detected(sql, tables):
    assert tables_locked_by(sql) == tables


@pytest.mark.django_db(transaction=True)
def test_every_writer_locks_in_the_documented_order(scene, monkeypatch):
    settle_in(scene)
    with watched(monkeypatch) as watch:
        for name in [*WRITERS] * 3:
            WRITERS[name](scene)
            assert watch.wrong == [], name


@pytest.mark.django_db(transaction=True)
def test_watch_detects_a_lock_out_of_order(scene, monkeypatch):
    with watched(monkeypatch) as watch, transaction.atomic():
        scene.run.topic.record("noted")
        Run.locked(scene.run_id)
    assert [(held, table) for held, table, _ in watch.wrong] == [("streaming_topic", "runs_run")]


def test_lock_order_is_documented():
    text = OPERATIONS.read_text().partition("## Lock order")[2].partition("\n## ")[0]
    places = [text.find(f"`{tables[0]}`") for tables in ORDER]
    assert -1 not in places and places == sorted(places)
    assert [table for tables in ORDER for table in tables if f"`{table}`" not in text] == []


# -- collisions ----------------------------------------------------------------------------------


FORK = multiprocessing.get_context("fork")


class Side:
    """One of two processes, with its own connection, that begin every round together."""

    def __init__(self, works: list[Callable[[], None]], meeting: Barrier, over: Event) -> None:
        self.works = works
        self.meeting = meeting
        self.over = over
        self.told, tell = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._play, args=(tell,))
        self.process.start()

    def _play(self, tell) -> None:
        """Stop at the first transaction that PostgreSQL aborted because of another one, and return
        the round.
        """
        random.seed()
        conflicts: list[int] = []
        locking.pause = lambda attempt: (conflicts.append(attempt), self.over.set())
        try:
            for number, work in enumerate(self.works):
                self.meeting.wait(A_ROUND_S)
                if self.over.is_set():
                    break
                time.sleep(random.uniform(0, MAX_DELAY_S))  # a different interleaving each time
                work()
                if conflicts:
                    tell.send((number, ""))
        except BaseException:
            self.over.set()
            self.meeting.abort()
            tell.send((number, traceback.format_exc()))
        connection.close()
        tell.close()

    def end(self) -> list[tuple[int, str]]:
        self.process.join(MAX_SECONDS)
        found = []
        while self.told.poll():
            try:
                found.append(self.told.recv())
            except EOFError:
                break
        return found


def collide(rounds: list[tuple[Callable, Callable]]) -> list[tuple[int, str]]:
    """Return (round, error) of each failure; the error is empty if only a lock was held."""
    connections.close_all()
    meeting = FORK.Barrier(2)
    over = FORK.Event()
    sides = [Side([pair[n] for pair in rounds], meeting, over) for n in range(2)]
    found = [one for side in sides for one in side.end()]
    return [one for one in found if "BrokenBarrierError" not in one[1]] or found


def deadlocks() -> int:
    """Return the deadlocks of this database since its creation, including retried ones."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]


def collide_all(scene: Scene, rounds: int) -> None:
    settle_in(scene)
    before = deadlocks()
    pairs = [pair for pair in PAIRS for _ in range(rounds)]
    works = {name: partial(writer, scene) for name, writer in WRITERS.items()}
    wrong = collide([(works[first], works[second]) for first, second in pairs])
    assert [(pairs[number], error) for number, error in wrong] == []
    assert deadlocks() == before
    run = scene.run
    assert run.is_live and run.step and run.groups_opened > run.groups_dropped > 0, "there was work"


@pytest.mark.django_db(transaction=True)
def test_no_two_writers_deadlock(scene):
    collide_all(scene, rounds=1)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(MAX_SECONDS)
@pytest.mark.django_db(transaction=True)
def test_no_two_writers_deadlock_in_many_rounds(scene):
    """About 390 rounds; more than 5,000 with `make test-long`."""
    collide_all(scene, rounds=65 if profiles.IS_LONG else 5)


@pytest.mark.django_db(transaction=True)
def test_opposite_lock_orders_are_detected(scene):
    @locking.unit_of_work
    def run_first():
        Run.locked(scene.run_id)
        scene.run.topic.record("noted")

    @locking.unit_of_work
    def topic_first():
        scene.run.topic.record("noted")
        Run.locked(scene.run_id)

    assert collide([(run_first, topic_first)] * 500)
