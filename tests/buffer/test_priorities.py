"""The order in which a buffer that keeps experiences uses them."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.buffer.priorities import PRIORITIES, decay_with_limit, linear_decay

counts = st.integers(0, 1000)


@given(counts, counts, st.floats(0, 10))
def test_each_use_lowers_the_priority_by_the_decay(version, uses, decay):
    for rule in PRIORITIES.values():
        assert rule(version, uses, decay=decay)[0] == pytest.approx(version - decay * uses)


@given(counts, counts)
def test_linear_decay_keeps_every_experience(version, uses):
    assert linear_decay(version, uses)[1]


@given(counts, st.integers(1, 9))
def test_experience_is_not_returned_after_the_last_allowed_use(uses, limit):
    assert decay_with_limit(0, uses, use_limit=limit)[1] == (uses < limit)


@given(counts, st.integers(-3, 0))
def test_use_limit_that_is_not_set_never_ends(uses, limit):
    assert decay_with_limit(0, uses, use_limit=limit)[1]


def test_noise_has_the_requested_spread():
    draw = random.Random(1)
    values = [decay_with_limit(7, 1, sigma=0.5, draw=draw)[0] for _ in range(4000)]
    assert statistics.fmean(values) == pytest.approx(5, abs=0.05) and statistics.stdev(
        values
    ) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("options", [{"sigma": -1.0, "draw": random.Random(0)}, {"sigma": 1.0}])
def test_negative_noise_or_noise_without_a_generator_is_refused(options):
    with pytest.raises(ValueError, match="sigma"):
        decay_with_limit(0, 0, **options)
