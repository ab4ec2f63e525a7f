"""Which of the ready groups an update takes first, by the run's `reading.order`."""

import random
from collections import Counter
from itertools import permutations
from statistics import fmean

import pytest
from django.db import transaction

from apps.accounts.models import User
from apps.buffer.models import Experience, batch_of, commit_step, plan_step
from apps.buffer.reading import ReadingState, ReadyGroup, order_groups
from apps.rewards.models import ALL_SIMULATED, LATE, SIMULATED, Reward
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.reading import Fifo, Freshest, HumanFirst, Priority, Rarity, RewardVariance, Weighted

WIDE = (0.0, 1.0)
NARROW = (0.5, 1.0)


@pytest.fixture
def reading(new_run):
    """Create a run with this order and two groups an update, its trainer at version 2."""

    def make(order: object, **changes: object) -> Run:
        run = new_run(
            **{"reading": {"order": order}, "groups_per_step": 2, "max_staleness": 9, **changes}
        )
        Run.objects.filter(pk=run.pk).update(step=2, published_version=2)
        assert run.claim_trainer("t", 60)
        return run

    return make


def taken(run: Run) -> list[int]:
    """Return the draws of the groups in the run's next update."""
    return list(
        dict.fromkeys(
            experience.group.draw_index for experience in batch_of(plan_step(run, run.fence))
        )
    )


def by_person(group: Group, **changes: object) -> Reward:
    rollout = group.rollouts.first()
    return Reward.objects.create(
        **{"rollout": rollout, "source": "human", "scorer": "stars", "value": 1.0, **changes}
    )


def test_groups_are_trained_in_draw_order_by_default(reading, judged):
    run = reading("fifo")
    assert run.settings.reading.order == Fifo()
    judged(run, WIDE, version=0)
    judged(run, WIDE, WIDE, version=2)
    assert taken(run) == [0, 1]


def test_freshest_groups_come_first_and_ties_keep_draw_order(reading, judged):
    run = reading("freshest")
    judged(run, WIDE, version=1)
    judged(run, WIDE, WIDE, WIDE, version=2)
    assert taken(run) == [1, 2]


def test_group_is_as_old_as_its_oldest_rollout(reading, judged):
    run = reading("freshest")
    mixed, *_ = judged(run, WIDE, WIDE, WIDE, version=2)
    Experience.objects.filter(pk=mixed.experiences.first().pk).update(weight_version=1)
    assert taken(run) == [1, 2]


def test_group_left_over_by_freshest_order_becomes_stale(reading, judged, trained):
    run = reading("freshest", max_staleness=1)
    (old,) = judged(run, WIDE, version=1)
    judged(run, WIDE, WIDE, version=2)
    trained(run)
    assert plan_step(run, run.fence) is None
    assert set(old.experiences.values_list("state", "reason")) == {
        ("dropped", "stale: older than version 2")
    }


def test_priority_order_takes_human_ratings_first_then_the_widest_spread(reading, judged):
    run = reading("priority")
    *_, rated = judged(run, NARROW, WIDE, NARROW, version=2)
    by_person(rated)
    assert taken(run) == [1, 2]


@pytest.mark.parametrize(
    "late",
    [{"is_current": False}, {"value": None, "reason": "taken back"}, {"details": {LATE: True}}],
)
def test_superseded_withdrawn_or_late_rating_gives_no_priority(reading, judged, late):
    run = reading("priority")
    *_, rated = judged(run, NARROW, NARROW, NARROW, version=2)
    by_person(rated, **late)
    assert taken(run) == [0, 1]


def test_priority_weighs_age_and_spread_by_the_configuration():
    groups = [
        ReadyGroup(1, 0, 0, WIDE),
        ReadyGroup(2, 1, 5, NARROW),
        ReadyGroup(3, 2, 5, NARROW, is_rated=True),
    ]
    assert order_groups(groups, Priority(people=0, spread=1, age=0), ReadingState(5)) == [1, 2, 3]
    assert order_groups(groups, Priority(people=0, spread=1, age=1), ReadingState(5)) == [2, 3, 1]
    assert order_groups(groups, Priority(people=1, spread=0, age=0), ReadingState(5)) == [3, 1, 2]


@pytest.mark.parametrize("rule", [Fifo(), Freshest(), Priority(), RewardVariance(), HumanFirst()])
def test_equal_groups_keep_their_draw_order(rule):
    groups = [ReadyGroup(group, draw, 3, WIDE) for group, draw in [(7, 2), (8, 0), (9, 1)]]
    assert order_groups(groups, rule, ReadingState(3)) == [8, 9, 7]


# -- variance, human first, rarity, weighted: each compared with a slow, simple version


def some(count: int, seed: int, kinds: str = "abc") -> list[ReadyGroup]:
    """Return varied groups, in an order that differs from their draw order."""
    draw = random.Random(seed)
    groups = [
        ReadyGroup(
            100 + n,
            n,
            draw.randrange(5),
            [draw.random() for _ in range(4)],
            draw.random() < 0.3,
            draw.choice(kinds),
        )
        for n in range(count)
    ]
    draw.shuffle(groups)
    return groups


def variance(rewards: list[float]) -> float:
    return fmean((reward - fmean(rewards)) ** 2 for reward in rewards)


@pytest.mark.parametrize("seed", range(5))
def test_variance_order_sorts_groups_by_decreasing_variance(seed):
    groups = {one.group: one for one in some(30, seed)}
    order = [
        variance(groups[pk].rewards)
        for pk in order_groups(list(groups.values()), RewardVariance(), ReadingState(5))
    ]
    assert order == sorted(order, reverse=True) and len(order) == 30


def test_variance_order_takes_the_widest_rewards_first(reading, judged):
    run = reading("reward_variance")
    judged(run, NARROW, WIDE, (0.25, 0.75), (0.1, 0.9), version=2)
    assert taken(run) == [1, 3]


@pytest.mark.parametrize("seed", range(5))
def test_human_first_order_takes_rated_groups_first_and_others_in_draw_order(seed):
    groups = some(30, seed)
    by_draw = sorted(groups, key=lambda one: one.draw)
    wanted = [one.group for one in by_draw if one.is_rated] + [
        one.group for one in by_draw if not one.is_rated
    ]
    assert order_groups(groups, HumanFirst(), ReadingState(5)) == wanted


def test_rated_group_is_first_however_small_its_spread(reading, judged):
    run = reading("human_first")
    *_, rated = judged(run, WIDE, WIDE, NARROW, version=2)
    by_person(rated)
    assert taken(run) == [0, 2]


@pytest.mark.parametrize("order", ["human_first", "priority"])
def test_simulated_rating_does_not_count_as_human(reading, judged, order):
    """Compare the order with a count of human rewards."""
    run = reading(order)
    groups = judged(run, *[NARROW] * 5, version=2)
    robot = User.objects.create(username="robot", is_simulated=True)
    person = User.objects.create(username="ann")
    by_person(groups[1], by=robot)
    by_person(groups[2], scorer="people", details={SIMULATED: 1, ALL_SIMULATED: True})
    by_person(groups[3], scorer="people", details={SIMULATED: 1})
    by_person(groups[4], by=person)
    counted = [
        group.draw_index
        for group in groups
        for reward in Reward.objects.filter(rollout__group=group, source="human")
        if not reward.is_simulated
    ]
    assert taken(run) == counted == [3, 4]


@pytest.mark.parametrize("seed", range(10))
def test_rarity_order_always_takes_the_kind_used_least_so_far(seed):
    groups = some(40, seed)
    learned = {"a": 7, "b": 2, "elsewhere": 50}
    counts = Counter(learned)
    left = list(groups)
    wanted = []
    while left:
        rarest = min(left, key=lambda one: (counts[one.kind], one.draw))
        left.remove(rarest)
        counts[rarest.kind] += 1
        wanted.append(rarest.group)
    assert order_groups(groups, Rarity(), ReadingState(5, learned=learned)) == wanted


@pytest.fixture
def two_domains(taskset):
    """Create tasks of two domains, three quarters of them sums."""
    for number, task in enumerate(taskset.tasks.order_by("index")):
        task.domain = "prose" if number % 4 == 3 else "sums"
        task.save(update_fields=["domain"])


@pytest.mark.usefixtures("two_domains")
def test_rarity_order_takes_the_least_trained_domains_first(reading, judged, trained):
    run = reading({"name": "rarity"}, selection={"name": "sequential"})
    judged(run, *[WIDE] * 6, version=2)
    assert taken(run) == [0, 3]
    commit(run)
    assert taken(run) == [1, 2], "the only group of prose was taken"


@pytest.mark.usefixtures("two_domains")
@pytest.mark.parametrize(("window", "then"), [(1, [4, 7]), (2, [7, 11])])
def test_rarity_window_counts_only_the_newest_updates(reading, judged, window, then):
    run = reading(
        {"name": "rarity", "window": window}, selection={"name": "sequential"}, max_staleness=20
    )
    judged(run, *[WIDE] * 3, version=2)
    assert taken(run) == [0, 1], "there are only sums"
    commit(run)
    judged(run, WIDE, version=2)
    assert taken(run) == [2, 3], "there are no others"
    commit(run)
    judged(run, *[WIDE] * 8, version=2)
    assert taken(run) == then


def test_rarity_by_task_takes_untrained_tasks_first(reading, judged):
    run = reading(
        {"name": "rarity", "count_by": "task"}, selection={"name": "sequential"}, group_size=2
    )
    groups = judged(run, *[WIDE] * 5, version=2)
    assert taken(run) == [0, 1]
    for group, like in ((groups[2], groups[0]), (groups[4], groups[2])):
        Group.objects.filter(pk=group.pk).update(task=like.task)
    commit(run)
    assert taken(run) == [3, 4]


def commit(run: Run) -> None:
    step = plan_step(run, run.fence)
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    run.refresh_from_db()


def one_after_another(weights: dict[int, float], order: tuple[int, ...]) -> float:
    """Return the probability that drawing without replacement gives this order: each by its share
    of the rest.
    """
    left = dict(weights)
    chance = 1.0
    for pk in order:
        chance *= left[pk] / sum(left.values())
        del left[pk]
    return chance


def test_weighted_order_matches_drawing_without_replacement_by_weight():
    groups = [
        ReadyGroup(0, 0, 5, (0.0, 1.0)),
        ReadyGroup(1, 1, 5, (0.5, 0.5), is_rated=True),
        ReadyGroup(2, 2, 3, (0.0, 0.5)),
    ]
    weights = {0: 0.51, 1: 1.01, 2: 0.26 * 2.718281828**-0.2}
    rule = Weighted()
    tries = 6000
    found = Counter(
        tuple(order_groups(groups, rule, ReadingState(5, number))) for number in range(tries)
    )
    for order in permutations(range(3)):
        wanted = one_after_another(weights, order)
        assert found[order] / tries == pytest.approx(
            wanted, abs=5 * (wanted * (1 - wanted) / tries) ** 0.5
        )


def test_weighted_order_is_the_same_for_the_same_update_and_seed():
    groups = some(30, 1)
    assert order_groups(groups, Weighted(), ReadingState(5, 3, 7)) == order_groups(
        groups[::-1], Weighted(), ReadingState(5, 3, 7)
    )
    assert order_groups(groups, Weighted(), ReadingState(5, 3, 7)) != order_groups(
        groups, Weighted(), ReadingState(5, 4, 7)
    )
    assert order_groups(groups, Weighted(), ReadingState(5, 3, 7)) != order_groups(
        groups, Weighted(), ReadingState(5, 3, 8)
    )


def test_group_whose_weight_decayed_to_zero_comes_last():
    groups = [ReadyGroup(0, 0, 0, (0.0, 1.0)), ReadyGroup(1, 1, 1000, (0.5, 0.5))]
    assert order_groups(groups, Weighted(age=1000), ReadingState(1000)) == [1, 0]


def test_lost_plan_in_weighted_order_is_made_again_equally(reading, judged):
    run = reading("weighted")
    judged(run, *[WIDE] * 8, version=2)
    with transaction.atomic():
        lost = taken(run)
        transaction.set_rollback(True)
    assert taken(run) == lost
