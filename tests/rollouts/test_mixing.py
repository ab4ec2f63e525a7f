"""A run over several tasksets draws from each by its share, and within each by the run's
selection, with the same draws after a crash.
"""

import threading
from collections import Counter
from itertools import islice

import pytest
from django.db import OperationalError, connection, connections, transaction

from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.ledger import runs_sample_from_their_tasksets
from apps.rollouts.models import Group
from apps.rollouts.task_requests import TaskRequest
from apps.rollouts.task_stats import GroupResult, TaskRecord
from apps.runs.models import NotPossible
from apps.runs.selection import Bots
from apps.tasksets.selection import bots, curriculum, pools, prioritized, sequential, uniform
from apps.tasksets.selection.chance import below
from apps.tasksets.selection.stock import Stock
from apps.tasksets.shuffled_draws import draw_position
from tests.rollouts.mixed import drawn, expected, taskset_of, turns

SIZES = {"large": 7, "small": 3}
SHARES = {"small": 1, "large": 2}
SEED = 5


def seed_of(slug: str) -> int:
    return below(2**31, SEED, slug)


@pytest.fixture
def sets(project):
    return {slug: taskset_of(project, slug, size) for slug, size in SIZES.items()}


@pytest.fixture
def mixed_run(new_run, sets):
    def make(**changes):
        return new_run(
            **{"taskset": None, "tasksets": SHARES, "max_staleness": 99, "steps": 100, "seed": SEED}
            | changes
        )

    return make


def leave_out(run, taskset, indexes, by):
    tasks = taskset.tasks.filter(index__in=indexes)
    LeftOut.objects.bulk_create(
        LeftOut(run=run, task=task, reason="too easy", by=by) for task in tasks
    )


def test_each_taskset_gets_its_share_of_draws_in_any_order_of_the_configuration(mixed_run):
    taken = [slug for slug, _ in drawn(mixed_run(), 12)]
    assert [Counter(taken[n : n + 3]) for n in (0, 3, 6, 9)] == [{"large": 2, "small": 1}] * 4
    assert [
        slug for slug, _ in drawn(mixed_run(tasksets=dict(reversed(SHARES.items()))), 12)
    ] == taken


def test_epoch_of_a_taskset_draws_each_of_its_tasks_once(mixed_run):
    taken = drawn(mixed_run(), 3 * 21)  # 42 draws of the large set, 21 of the small one
    for slug, size in SIZES.items():
        own = [index for one, index in taken if one == slug]
        assert len(own) % size == 0
        assert all(sorted(own[n : n + size]) == list(range(size)) for n in range(0, len(own), size))
        assert own[:size] != own[size : 2 * size]


PLACES = {
    "sequential": lambda slug, nth: sequential.sequential_position(nth, SIZES[slug]),
    "shuffle": lambda slug, nth: draw_position(nth, SIZES[slug], seed_of(slug)),
    "random": lambda slug, nth: uniform.uniform_position(nth, SIZES[slug], seed_of(slug)),
}


@pytest.mark.parametrize("rule", PLACES)
def test_selection_within_a_taskset_continues_as_if_it_were_the_only_one(mixed_run, rule):
    run = mixed_run(selection=rule)
    assert drawn(run, 4) + drawn(run, 1) + drawn(run, 25) == expected(SHARES, 30, PLACES[rule])


def test_easy_to_hard_orders_each_taskset_by_level(mixed_run):
    run = mixed_run(selection={"name": "easy_to_hard", "scale": "level"})
    assert drawn(run, 30) == expected(
        SHARES, 30, lambda slug, nth: SIZES[slug] - 1 - nth % SIZES[slug]
    )


def test_pools_share_the_draws_of_each_taskset(mixed_run):
    run = mixed_run(
        selection={
            "name": "pools",
            "scale": "level",
            "pools": [{"max_value": 1, "share": 1}, {"share": 2}],
        }
    )

    def index(slug, nth):
        return SIZES[slug] - 1 - pools.pool_position(nth, [1, SIZES[slug]], [1, 2], seed_of(slug))

    assert drawn(run, 30) == expected(SHARES, 30, index)


def test_curriculum_gets_hard_in_every_taskset_at_the_same_step_of_the_run(mixed_run):
    run = mixed_run(
        selection={"name": "curriculum", "scale": "level", "from_step": 5, "hard_share": 0.3},
        groups_per_step=2,
    )
    begins = Counter(who for who, _ in islice(turns(SHARES), 10))

    def index(slug, nth):
        size = SIZES[slug]
        return (
            size
            - 1
            - curriculum.curriculum_position(
                nth, size, seed_of(slug), hard_from_draw=begins[slug], hard_share=0.3
            )
        )

    taken = drawn(run, 30)
    assert taken == expected(SHARES, 30, index)
    assert {index for slug, index in taken[10:] if slug == "large"} == {0, 1} and {
        i for s, i in taken[10:] if s == "small"
    } == {0}


def recorded(run, taskset, rates):
    """Record ten attempts of each task, with this rate of success."""
    for index, rate in rates.items():
        task = taskset.tasks.get(index=index)
        TaskRecord.add(
            run.pk,
            [GroupResult(task.pk, 0, [1.0] * round(10 * rate) + [0.0] * round(10 - 10 * rate))],
            2,
            Bots(),
        )


RATES = {"large": {0: 1.0, 1: 0.0, 4: 0.5}, "small": {0: 0.0, 1: 1.0, 2: 1.0}}


def by_set(draws: int) -> dict[str, list[int]]:
    """Return the numbers of the first draws by taskset."""
    found = {}
    for draw, (who, _) in zip(range(draws), turns(SHARES), strict=False):
        found.setdefault(who, []).append(draw)
    return found


@pytest.mark.parametrize("times", [(12,), (1,) * 12, (5, 7)])
def test_prioritized_draws_use_only_the_records_of_their_own_taskset(mixed_run, sets, times):
    run = mixed_run(selection={"name": "prioritized", "rate": "all"})
    for slug, taskset in sets.items():
        recorded(run, taskset, RATES[slug])
    taken = [one for groups in times for one in drawn(run, groups)]
    for slug, draws in by_set(12).items():

        def look(wanted, rates=RATES[slug]):
            return {index: rates[index] for index in wanted if index in rates}

        own = prioritized.draw_prioritized(
            draws, Stock(SIZES[slug]), seed_of(slug), look, floor=0.05, prior=0.5
        )
        assert [index for one, index in taken if one == slug] == own


@pytest.mark.parametrize("times", [(12,), (1,) * 12, (5, 7)])
def test_beliefs_decay_with_the_steps_of_the_run_in_every_taskset(mixed_run, sets, times):
    run = mixed_run(selection={"name": "bots", "target": 0.7}, groups_per_step=2)
    for slug, taskset in sets.items():
        recorded(run, taskset, RATES[slug])
    taken = [one for groups in times for one in drawn(run, groups)]
    for slug, draws in by_set(12).items():
        rows = [
            (index, 1 + 16 * rate, 1 + 16 * (1 - rate), 0) for index, rate in RATES[slug].items()
        ]
        stock = Stock(SIZES[slug])
        how = {"target": 0.7, "choose": "thompson", "tau": 0.1}
        own = [
            bots.draw_by_belief(
                draw, stock, seed_of(slug), bots.Beliefs.of(rows, draw // 2, 0.2), **how
            )
            for draw in draws
        ]
        assert [index for one, index in taken if one == slug] == own


def test_requested_tasks_of_any_taskset_come_first_and_the_turns_then_continue(
    mixed_run, sets, alice
):
    run = mixed_run(selection="people")
    shuffled = expected(SHARES, 9, PLACES["shuffle"])
    assert drawn(run, 2) == shuffled[:2]
    assert TaskRequest.submit(run, sets["small"], 2, alice) and TaskRequest.submit(
        run, sets["large"], 2, alice
    )
    assert TaskRequest.submit(run, sets["large"], 6, alice) and not TaskRequest.submit(
        run, sets["large"], 2, alice
    )
    leave_out(run, sets["large"], [6], alice)
    assert drawn(run, 1) + drawn(run, 3) == [("small", 2), ("large", 2), *shuffled[2:4]]


def test_task_of_a_taskset_outside_the_run_cannot_be_requested(mixed_run, taskset, alice):
    with pytest.raises(NotPossible, match=r"samples from large \+ small, not from sort"):
        TaskRequest.submit(mixed_run(selection="people"), taskset, 0, alice)


def test_task_left_out_of_one_taskset_is_still_drawn_from_the_other(mixed_run, sets, alice):
    run = mixed_run()
    leave_out(run, sets["large"], [0, 1], alice)
    taken = drawn(run, 30)
    assert {index for slug, index in taken if slug == "large"} == {2, 3, 4, 5, 6}
    assert {index for slug, index in taken if slug == "small"} == {0, 1, 2}


def test_taskset_with_all_tasks_left_out_gives_its_turns_to_the_others(mixed_run, sets, alice):
    run = mixed_run()
    leave_out(run, sets["small"], [0, 1, 2], alice)
    assert {slug for slug, _ in drawn(run, 9)} == {"large"}
    leave_out(run, sets["large"], range(7), alice)
    with pytest.raises(ValueError, match=r"all tasks of large \+ small are left out"):
        drawn(run, 1)


RULES = [
    "sequential",
    "shuffle",
    "random",
    "prioritized",
    "bots",
    "people",
    {"name": "easy_to_hard", "scale": "level"},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rolled_back_draws_are_repeated_identically_in_any_batch_size(mixed_run, sets, alice, rule):
    run = mixed_run(selection=rule)
    leave_out(run, sets["large"], [3], alice)
    if rule == "people":
        TaskRequest.submit(run, sets["small"], 1, alice)
    drawn(run, 4)
    with transaction.atomic():
        lost = drawn(run, 9)
        transaction.set_rollback(True)
    assert drawn(run, 2) + drawn(run, 1) + drawn(run, 6) == lost


@pytest.mark.django_db(transaction=True)
def test_killed_draw_transaction_leaves_nothing_and_the_next_draws_are_the_same(
    mixed_run,
):
    run = mixed_run()
    lost = []
    opened = threading.Event()
    ended = threading.Event()
    drawn(run, 4)

    def draw_and_hang():
        try:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_backend_pid()")
                    lost.append(cursor.fetchone()[0])
                lost.extend(drawn(run, 5))
                opened.set()
                ended.wait(60)
                Group.objects.count()  # fails, because the connection was ended
        except OperationalError:
            lost.append("killed")
        finally:
            opened.set()
            connections.close_all()

    drawer = threading.Thread(target=draw_and_hang)
    drawer.start()
    assert opened.wait(60)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [lost[0]])
    ended.set()
    drawer.join(60)
    assert lost[-1] == "killed" and run.groups.count() == 4
    run.refresh_from_db()
    assert drawn(run, 2) + drawn(run, 3) == lost[1:-1]
    assert lost[1:-1] == expected(SHARES, 9, PLACES["shuffle"])[4:]


def test_ledger_reports_draws_of_foreign_tasks_and_inconsistent_shares(mixed_run, sets, taskset):
    run = mixed_run()
    drawn(run, 3)
    assert list(runs_sample_from_their_tasksets()) == []
    run.groups.filter(draw_index=1).update(task=taskset.tasks.first())
    assert [
        words.count("no taskset of its run") for words in runs_sample_from_their_tasksets()
    ] == [1]
    run.shares.get(taskset=sets["small"]).delete()
    assert any("but shares of 1" in words for words in runs_sample_from_their_tasksets())
