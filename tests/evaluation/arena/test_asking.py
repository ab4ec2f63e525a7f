"""Which pair comes next in an arena: the pairings with the fewest votes, each pair once, in each
person's own order, and second opinions.
"""

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Membership, User
from apps.evaluation.arena.asking import arena_progress, next_pairs
from apps.evaluation.arena.making import close_arena, create_arena
from apps.evaluation.arena.pairs import Pair, find_pair, first_is_left, name_pair
from apps.evaluation.arena.voting import list_pairings, take_back
from apps.evaluation.models import Arena
from apps.runs.config import ConfigError
from apps.tasksets.models import Task
from tests.evaluation.arena.contests import TASKS, asked, contest, evaluated, judge_all, say

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(run, finish, alice):
    return contest(run, finish, alice)


@pytest.fixture
def dora(project):
    person = User.objects.create(username="dora")
    Membership.objects.create(project=project, user=person, role=Membership.Role.RATER)
    return person


def test_pairings_of_contestants_are_shown_equally_often_at_any_moment(arena, bob):
    met: list[Pair] = []
    while pairs := asked(bob, arena):
        say(bob, arena, pairs[0], "tie")
        met += pairs
        counts = Counter(pair.pairing.pk for pair in met)
        assert (
            len(met) < 3
            or max(counts.values()) - min(counts[one.pk] for one in list_pairings(arena)) <= 1
        )
    assert len(met) == 3 * TASKS * 2 and len({pair.key for pair in met}) == len(met)


def test_person_sees_every_task_once_before_any_repeats(arena, bob):
    met = judge_all(bob, arena, lambda pair: "tie")
    for pairing in list_pairings(arena):
        tasks = [pair.index for pair in met if pair.pairing == pairing]
        assert sorted(tasks[:TASKS]) == list(range(TASKS))


def test_each_person_has_a_fixed_task_order_of_their_own(arena, alice, bob, dora):
    orders = {who: [pair.key for pair in asked(who, arena, 24)] for who in (alice, bob, dora)}
    assert orders == {
        who: [pair.key for pair in asked(who, arena, 24)] for who in (alice, bob, dora)
    }
    assert len(set(map(tuple, orders.values()))) == 3 and {
        len(order) for order in orders.values()
    } == {24}


def test_pairs_without_votes_come_before_second_opinions(arena, alice, bob):
    first = {pair.key for pair in judge_all(bob, arena, lambda pair: "tie", most=15)}
    met = [pair.key for pair in judge_all(alice, arena, lambda pair: "first")]
    assert set(met[:9]) & first == set() and len(met) == 24


def test_configured_share_of_pairs_asks_for_second_opinions(run, finish, alice, bob):
    arena = contest(run, finish, alice, again=1.0)
    first = {pair.key for pair in judge_all(bob, arena, lambda pair: "tie", most=6)}
    assert {pair.key for pair in judge_all(alice, arena, lambda pair: "tie", most=6)} == first
    arena = Arena.objects.get(pk=arena.pk)
    assert (
        len(judge_all(alice, arena, lambda pair: "tie")) == 18
    )  # the others, which nobody else has voted on


def test_pairs_of_equal_answers_are_not_shown(run, finish, alice, bob):
    same = ["yes"] * 8
    other = ["yes"] * 6 + ["no"] * 2
    runs = evaluated(run, finish, [same, other])
    arena = create_arena(run.project, alice, "", [one.pk for one in runs])
    [pairing] = list_pairings(arena)
    assert (pairing.size, pairing.same, arena.title) == (2, 6, "sort, 2 contestants")
    assert [pair.index for pair in judge_all(bob, arena, lambda pair: "first")] == [3, 3]


def test_held_pair_is_not_shown_again_but_a_withdrawn_vote_is(arena, bob):
    pairings = list_pairings(arena)
    before = asked(bob, arena, 3)
    progress = arena_progress(bob, arena, pairings)
    assert {pair.key for pair in next_pairs(bob, arena, pairings, progress, 3, before)} & {
        pair.key for pair in before
    } == set()
    vote = say(bob, arena, before[0], "first")
    assert before[0].key not in {pair.key for pair in asked(bob, arena, 24)}
    take_back(bob, arena, vote.client_uuid, vote.client_uuid.__class__(int=7))
    assert before[0].key in {pair.key for pair in asked(bob, arena, 24)}
    assert arena_progress(bob, arena, list_pairings(arena)).own == 0


def test_sides_are_drawn_per_person_and_pair_and_stay_fixed(arena, alice, bob):
    pairs = asked(bob, arena, 24)
    sides = [first_is_left(arena, bob, pair) for pair in pairs]
    assert sides == [first_is_left(arena, bob, pair) for pair in pairs]
    assert (
        True in sides
        and False in sides
        and sides != [first_is_left(arena, alice, pair) for pair in pairs]
    )


def test_pair_name_is_valid_for_one_person_only(arena, alice, bob):
    [pair] = asked(bob, arena)
    name = name_pair(arena, bob, pair)
    assert find_pair(arena, list_pairings(arena), bob, name) == pair
    assert find_pair(arena, list_pairings(arena), alice, name) is None
    for nonsense in (
        name[:-1] + ("0" if name[-1] != "0" else "1"),
        "",
        "1.2",
        "1.2.3",
        "x.0.y",
        None,
        3,
        ["1"],
        "9" * 40 + ".0.a",
    ):
        assert find_pair(arena, list_pairings(arena), bob, nonsense) is None


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (lambda pks: pks[:1], "2 to 12"),
        (lambda pks: pks * 7, None),
        (lambda pks: [*pks, 10**9], "complete"),
    ],
)
def test_arena_needs_two_to_twelve_complete_evaluations_and_ignores_duplicates(
    run, finish, alice, chosen, words
):
    pks = [one.pk for one in evaluated(run, finish, [["a"], ["b"]])]
    if words is None:  # ticked twice is ticked once
        assert create_arena(run.project, alice, "", chosen(pks)).contestants.count() == 2
        return
    with pytest.raises(ConfigError) as refused:
        create_arena(run.project, alice, "", chosen(pks))
    assert words in refused.value.problems["contestants"] and not Arena.objects.exists()


def test_versions_with_equal_answers_cannot_form_an_arena(run, finish, alice):
    runs = evaluated(run, finish, [["yes"], ["yes"]])
    with pytest.raises(ConfigError) as refused:
        create_arena(run.project, alice, "", [one.pk for one in runs])
    assert (
        "nothing to compare" in refused.value.problems["contestants"] and not Arena.objects.exists()
    )


def test_creating_and_closing_an_arena_are_recorded_in_the_audit_log(arena, alice, project):
    close_arena(arena, alice)
    close_arena(arena, alice)
    assert [
        entry.action for entry in project.audit_entries.order_by("pk") if "arena" in entry.action
    ] == ["arena made", "arena closed"]


def rows_of(plan: dict) -> int:
    """Return the most rows that a part of a plan returned, without inserted ones."""
    own = plan["Actual Rows"] * plan["Actual Loops"]
    return max([own, *(rows_of(part) for part in plan.get("Plans", ()))])


def test_next_pair_is_found_without_sorting_a_large_taskset(arena, bob):
    rows = [
        Task(taskset=arena.taskset, index=n, prompt=[], digest=f"{n:064}")
        for n in range(TASKS, 3000)
    ]
    Task.objects.bulk_create(rows)
    Arena.objects.update(tasks=3000, samples=16)
    arena.refresh_from_db()
    with (
        connection.cursor() as cursor
    ):  # as autovacuum would: the planner scans tables without statistics
        cursor.execute("ANALYZE tasksets_task, rollouts_group, rollouts_rollout")
    for pair in asked(bob, Arena.objects.get(), 1):
        say(bob, arena, pair, "tie")
    with CaptureQueriesContext(connection) as captured:
        asked(bob, arena)
    first = next(one["sql"] for one in captured if "rollouts_rollout" in one["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {first}".replace("%", "%%"), ())
        [[found]] = cursor.fetchall()
    assert rows_of(found[0]["Plan"]) < 1000  # of 48,000 places, and 3,000 tasks


def test_next_pair_takes_few_queries_however_many_votes_exist(arena, alice, bob):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(asked(bob, arena, 2)) == 2
        return len(captured)

    assert statements() == 4
    judge_all(alice, arena, lambda pair: "tie")
    judge_all(bob, arena, lambda pair: "tie", most=20)
    assert statements() == 6  # all pairs have votes: it also reads the votes of others


def test_pair_shown_to_one_person_is_still_available_to_others(arena, alice, bob):
    pairings = list_pairings(arena)
    ready = asked(bob, arena, 24)
    progress = arena_progress(alice, arena, pairings)
    met = next_pairs(alice, arena, pairings, progress, 24)
    assert {pair.key for pair in met} == {pair.key for pair in ready}
