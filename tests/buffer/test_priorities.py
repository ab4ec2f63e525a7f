"""What a buffer that keeps experiences takes first."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.buffer.priorities import PRIORITIES, decay_with_limit, linear_decay

counts = st.integers(0, 1000)


@given(counts, counts, st.floats(0, 10))
def test_each_use_costs_as_much_as_so_many_versions(version, uses, decay):
    for rule in PRIORITIES.values():
        assert rule(version, uses, decay=decay)[0] == pytest.approx(version - decay * uses)


@given(counts, counts)
def test_linear_decay_puts_every_experience_back(version, uses):
    assert linear_decay(version, uses)[1]


@given(counts, st.integers(1, 9))
def test_with_a_limit_the_last_use_is_the_end(uses, limit):
    assert decay_with_limit(0, uses, use_limit=limit)[1] == (uses < limit)


@given(counts, st.integers(-3, 0))
def test_a_limit_of_nothing_is_none(uses, limit):
    assert decay_with_limit(0, uses, use_limit=limit)[1]


def test_noise_has_the_spread_that_was_asked_for():
    draw = random.Random(1)
    values = [decay_with_limit(7, 1, sigma=0.5, draw=draw)[0] for _ in range(4000)]
    assert statistics.fmean(values) == pytest.approx(5, abs=0.05) and statistics.stdev(
        values
    ) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("options", [{"sigma": -1.0, "draw": random.Random(0)}, {"sigma": 1.0}])
def test_noise_below_nothing_or_from_nowhere_is_refused(options):
    with pytest.raises(ValueError, match="sigma"):
        decay_with_limit(0, 0, **options)
