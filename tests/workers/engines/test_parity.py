"""When a probe holds."""

import math

import pytest

from workers.engines.interface import ParityError
from workers.engines.parity import LIMIT, require_parity


def test_the_gap_is_the_mean_absolute_difference():
    assert require_parity([-1.0, -2.0], [-1.02, -1.98]) == pytest.approx(0.02)


def test_a_gap_above_the_limit_is_refused():
    with pytest.raises(ParityError) as refusal:
        require_parity([-1.0, -2.0], [-1.2, -1.8])
    assert refusal.value.gap == pytest.approx(0.2)
    assert str(LIMIT) in str(refusal.value)


@pytest.mark.parametrize("measured", [[], [-1.0], [math.nan, -1.0], [-math.inf, -1.0]])
def test_a_probe_that_says_nothing_is_refused(measured):
    with pytest.raises(ParityError):
        require_parity(measured, [-1.0, -1.0])
