"""Loops are detected at the token that completes them, exactly as a search of all tokens would
detect them.
"""

import random

import pytest

from apps.rollouts.repeats import LoopWatch


def found(said: list[int], period: int, times: int, tokens: int) -> list[int]:
    watch = LoopWatch(period, times, tokens)
    return [watch.push(token) for token in said]


def by_looking(said: list[int], period: int, times: int, tokens: int) -> int:
    """Return the shortest period with which the newest tokens repeat, or 0."""
    for p in range(1, period + 1):
        length = max(times * p, tokens, p + 1)
        last = said[-length:]
        if len(last) == length and all(last[n] == last[n - p] for n in range(p, length)):
            return p
    return 0


@pytest.mark.parametrize("seed", range(6))
def test_incremental_loop_detection_equals_a_search_of_all_tokens(seed):
    draw = random.Random(seed)
    said: list[int] = []
    while len(said) < 300:
        said += draw.choices(range(3), k=draw.randrange(1, 5)) * draw.randrange(1, 7)
    assert found(said, 4, 3, 8) == [by_looking(said[: n + 1], 4, 3, 8) for n in range(len(said))]


def test_loop_is_detected_once_it_is_long_enough_and_repeated_often_enough():
    assert found([7] * 9, 4, 2, 8) == [0] * 7 + [1, 1]
    assert found([1, 2, 3] * 4, 4, 4, 2)[-1] == 3 and found([1, 2, 3] * 3, 4, 4, 2)[-1] == 0


def test_loop_that_ends_is_no_longer_reported():
    assert found([7] * 8 + [5], 4, 2, 8)[-2:] == [1, 0]


def test_repetition_longer_than_the_longest_period_is_not_a_loop():
    assert not any(found([1, 2, 3, 4, 5] * 20, 4, 2, 2))
