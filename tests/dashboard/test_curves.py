"""Values of curves, rounded to the digits that are drawn."""

from hypothesis import given
from hypothesis import strategies as some

from apps.dashboard.curves import DIGITS, round_for_chart


@given(some.lists(some.none() | some.floats(allow_nan=False, allow_infinity=False)))
def test_values_are_rounded_to_the_digits_that_are_drawn(values):
    told = round_for_chart(values)
    assert [value is None for value in told] == [value is None for value in values]
    for value, exact in zip(told, values, strict=True):
        if exact is not None and 1e-300 < abs(exact) < 1e300:
            assert abs(value - exact) <= abs(exact) * 0.51 * 10 ** (1 - DIGITS)


@given(
    some.lists(
        some.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9), min_size=1
    )
)
def test_rounded_value_has_no_more_than_the_allowed_digits(values):
    assert all(
        len(f"{abs(value):e}".partition("e")[0].rstrip("0").replace(".", "")) <= DIGITS
        for value in round_for_chart(values)
    )
