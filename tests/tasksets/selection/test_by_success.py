"""Selection rules based on success: draw frequencies are compared with the formula."""

from collections import Counter

import numpy as np
import pytest

from apps.tasksets.selection import bots, prioritized
from apps.tasksets.selection.bots import Beliefs
from apps.tasksets.selection.stock import Stock

DRAWS = 6_000
NOTHING = Beliefs.of([], 0, 0.2)


def prioritised(
    rates: dict[int, float], size: int, floor: float, prior: float = 0.5, **stock
) -> Counter:
    def look(wanted):
        return {index: rates[index] for index in wanted if index in rates}

    return Counter(
        prioritized.draw_prioritized(
            [draw], Stock(size, **stock), 1, look, floor=floor, prior=prior
        )[0]
        for draw in range(DRAWS)
    )


def near(counts: Counter, expected: dict[int, float]) -> None:
    for index, share in expected.items():
        assert counts[index] / sum(counts.values()) == pytest.approx(share, abs=0.03)


def test_draw_probability_is_proportional_to_the_failure_rate():
    near(prioritised({0: 1.0, 1: 0.5, 2: 0.0}, 3, floor=1e-9), {0: 0, 1: 1 / 3, 2: 2 / 3})


def test_solved_task_keeps_the_floor_probability():
    near(prioritised({0: 1.0, 1: 0.5, 2: 0.0}, 3, floor=0.25), {0: 1 / 7, 1: 2 / 7, 2: 4 / 7})


def test_tasks_are_equally_likely_when_all_are_solved():
    near(prioritised(dict.fromkeys(range(4), 1.0), 4, floor=0.05), dict.fromkeys(range(4), 1 / 4))


def test_untried_task_uses_the_prior():
    near(prioritised({0: 0.0}, 2, floor=0.01, prior=0.75), {0: 0.8, 1: 0.2})


def test_left_out_and_in_progress_tasks_are_not_drawn():
    assert set(prioritised({}, 4, floor=0.05, left_out=[0], under_way={1: 1})) == {2, 3}


def test_drawing_in_one_call_equals_drawing_one_by_one():
    rates = {index: index / 30 for index in range(30)}

    def look(wanted):
        return {index: rates[index] for index in wanted}

    one_by_one = []
    stock = Stock(30)
    for draw in range(20):
        one_by_one += prioritized.draw_prioritized([draw], stock, 9, look, floor=0.05, prior=0.5)
    assert (
        prioritized.draw_prioritized(range(20), Stock(30), 9, look, floor=0.05, prior=0.5)
        == one_by_one
    )


def test_drawing_from_a_million_tasks_looks_up_few_success_rates():
    asked = []

    def look(wanted):
        asked.extend(wanted)
        return {}

    prioritized.draw_prioritized(range(16), Stock(1_000_000), 0, look, floor=0.05, prior=0.5)
    assert len(asked) < 16 * 64


def test_beliefs_match_the_bots_formula():
    """Use λ 0.2, m 16: a group at 3/4, nothing in the next update, then one at 1/4 (computed with
    the formula, step by step).
    """
    alpha = beta = 1.0
    for rate in (0.75, None, 0.25):
        gained = bots.evidence(rate, 16) if rate is not None else (0.0, 0.0)
        alpha = 0.8 * alpha + 0.2 + gained[0]
        beta = 0.8 * beta + 0.2 + gained[1]
    first = bots.evidence(0.75, 16)
    ours = Beliefs.of([(0, 1 + first[0], 1 + first[1], 4)], 6, 0.2)
    second = bots.evidence(0.25, 16)
    assert (ours.alpha[0] + second[0], ours.beta[0] + second[1]) == pytest.approx((alpha, beta))


@pytest.mark.parametrize("forgetting", [0.02, 0.2, 0.9, 1.0])
def test_beliefs_are_remembered_until_they_have_faded(forgetting):
    updates = bots.memory(forgetting, 16, 8)
    alpha = 1.0
    for _ in range(2_000):  # the strongest belief: all groups of each update have the same task
        alpha = (1 - forgetting) * alpha + forgetting + 8 * 16
    left = [bots.faded(np.array([alpha]), n, forgetting)[0] - 1 for n in (updates - 1, updates)]
    assert left[1] < bots.FADED <= left[0] or (forgetting == 1 and left[1] == 0)


def test_memory_is_unlimited_without_forgetting():
    assert bots.memory(0.0, 16, 8) is None


def share_by_hand(size: int, beliefs: Beliefs, target: float, seed: int = 0) -> Counter:
    """Return the counts of Thompson sampling over every task, computed directly."""
    alpha = np.ones(size)
    beta = np.ones(size)
    alpha[beliefs.index], beta[beliefs.index] = beliefs.alpha, beliefs.beta
    chance = np.random.default_rng(seed)
    return Counter(int(np.argmin(np.abs(target - chance.beta(alpha, beta)))) for _ in range(DRAWS))


def shares(size: int, beliefs: Beliefs, **how) -> Counter:
    how = {"target": 0.5, "choose": "thompson", "tau": 1.0, **how}
    return Counter(
        bots.draw_by_belief(draw, Stock(size), 3, beliefs, **how) for draw in range(DRAWS)
    )


@pytest.mark.parametrize("target", [0.5, 0.8, 1.0])
def test_thompson_sampling_matches_sampling_over_all_tasks(target):
    beliefs = Beliefs.of([(1, 9.0, 9.0, 0), (4, 14.0, 3.0, 0), (5, 2.0, 15.0, 0)], 0, 0.2)
    by_hand = share_by_hand(12, beliefs, target)
    near(shares(12, beliefs, target=target), {index: by_hand[index] / DRAWS for index in range(12)})


@pytest.mark.parametrize("choose", ["thompson", "mean", "softmax"])
def test_draws_without_forgotten_tasks_match_draws_over_all_tasks(choose):
    """Half of the tasks were last scored one update before the memory begins."""
    now = 1_000
    beyond = now - bots.memory(0.2, 16, 8) - 1
    old = [(index, 1.0 + 40 * (index % 2), 41.0 - 40 * (index % 2), beyond) for index in range(6)]
    new = [(6, 9.0, 9.0, now), (7, 14.0, 3.0, now - 2), (8, 2.0, 15.0, now - 5)]
    every = Beliefs.of(old + new, now, 0.2)
    kept = Beliefs.of(new, now, 0.2)
    how = {"choose": choose, "target": 0.8, "tau": 0.1}
    over_all, over_kept = shares(12, every, **how), shares(12, kept, **how)
    near(over_kept, {index: over_all[index] / DRAWS for index in range(12)})
    if choose == "thompson":
        by_hand = share_by_hand(12, every, 0.8)
        near(over_kept, {index: by_hand[index] / DRAWS for index in range(12)})


def test_softmax_matches_softmax_over_all_tasks():
    beliefs = Beliefs.of([(0, 9.0, 1.0, 0), (2, 1.0, 9.0, 0)], 0, 0.2)
    weights = np.exp(-np.array([0.3, 0.1, 0.5, 0.1, 0.1]) / 0.25)
    near(
        shares(5, beliefs, target=0.6, choose="softmax", tau=0.25),
        dict(enumerate(weights / weights.sum())),
    )


def test_mean_rule_draws_the_nearest_task_that_is_not_in_progress():
    beliefs = Beliefs.of([(0, 9.0, 1.0, 0), (1, 6.0, 4.0, 0), (2, 8.0, 2.0, 0)], 0, 0.2)
    stock = Stock(3)
    assert [
        bots.draw_by_belief(draw, stock, 0, beliefs, target=0.72, choose="mean", tau=1)
        for draw in range(3)
    ] == [2, 1, 0]


def test_every_task_is_equally_likely_when_none_was_tried():
    counts = shares(4, NOTHING)
    near(counts, dict.fromkeys(range(4), 1 / 4))


def test_left_out_tasks_are_not_drawn_whether_tried_or_not():
    beliefs = Beliefs.of([(0, 5.0, 5.0, 0), (1, 5.0, 5.0, 0)], 0, 0.2)
    stock = Stock(4, left_out=[0, 2])
    taken = {
        bots.draw_by_belief(
            draw,
            Stock(4, left_out=stock.left_out),
            0,
            beliefs,
            target=0.5,
            choose="thompson",
            tau=1,
        )
        for draw in range(200)
    }
    assert taken == {1, 3}


def test_equal_beliefs_and_draws_give_equal_tasks():
    beliefs = Beliefs.of([(n, 1.0 + n, 20.0 - n, 0) for n in range(20)], 0, 0.2)
    assert shares(40, beliefs) == shares(40, beliefs)
