"""Comparing the output or value of a program with the expected one."""

import random
from collections import deque
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.rewards.code.comparing import Rule, is_same_json, same_text
from apps.rewards.sandbox.values import decode, encode

ANY_ORDER = Rule(is_unordered=True)
LOOSE = Rule(1e-6)
EXACT = Rule(0)


@pytest.mark.parametrize(
    ("said", "wanted", "rule", "is_same"),
    [
        (0.1 + 0.2, 0.3, Rule(), True),
        (0.1 + 0.2, 0.3, EXACT, False),
        (0.34, 0.3, Rule(), False),
        (1333335333333500000, 1.333335333334e18, Rule(), True),
        (0.3333333333, 0.333333, Rule(), True),
        (0.33333, 0.333333, Rule(), False),
        (100000.04, 100000.0, Rule(), False),
        (2, 2.0, EXACT, True),
        (1.00001, 1, Rule(), False),
        (1.00001, 1, Rule(1e-3), True),
        (1.0000000001, 1, Rule(), False),
        (float("nan"), 1.0, LOOSE, False),
        (float("inf"), 1e308, LOOSE, False),
        (10**400, 1.5, LOOSE, False),
        (True, 1, LOOSE, False),
        (1, True, LOOSE, False),
        ("1", 1, LOOSE, False),
        (None, 0, LOOSE, False),
        ({2, 3}, [2, 3], Rule(), False),
        ({2, 3}, [3, 2], ANY_ORDER, True),
        ({2, 3}, [2, 3, 3], ANY_ORDER, False),
        (frozenset({1}), [1], ANY_ORDER, True),
        ([{1, 2}, {3}], [[3], [2, 1]], ANY_ORDER, True),
        ([[1, 2]], [[2, 1]], ANY_ORDER, False),
        ([1, "a", None, [2]], [[2], None, "a", 1], ANY_ORDER, True),
        ((1, (2,)), [1, [2]], Rule(), True),
        (deque([1]), [1], Rule(), True),
        ({1: (2,)}, {"1": [2]}, Rule(), True),
        ({True: 1}, {"true": 1}, Rule(), True),
        ({"a": 1}, {"a": 1, "b": 2}, Rule(), False),
        (Fraction(1, 2), 0.5, Rule(), True),
        (Decimal("0.1"), 0.1, Rule(), True),
        ("0.30000000000000004", "0.3", Rule(), False),
        (b"a", "a", Rule(), False),
        (1j, 1, Rule(), False),
    ],
)
def test_json_values_are_compared_by_the_rule(said, wanted, rule, is_same):
    assert is_same_json(said, wanted, rule) is is_same


@pytest.mark.parametrize(
    ("said", "wanted", "rule", "is_same"),
    [
        ("0.30000000000000004\n", "0.3", Rule(), True),
        ("0.30000000000000004\n", "0.3", EXACT, False),
        ("3.5 4", "3.50 4", Rule(), True),
        ("2", "2.0", Rule(), True),
        ("2.0", "2", Rule(), False),
        ("2.0", "2", LOOSE, True),
        ("1e3", "1000.0", Rule(), True),
        ("1.0  2", "1.00 2", Rule(), False),
        ("1.5 a", "1.50 b", LOOSE, False),
        ("0x10", "16.0", LOOSE, False),
        ("nan", "1.0", Rule(1), False),
        ("1_0", "10.0", LOOSE, False),
        ("1" * 500 + ".0", "1" * 500 + ".00", LOOSE, False),
        ("007", "7", LOOSE, False),
        ("b\na", "a\nb", ANY_ORDER, True),
        ("1.0", "1.00", Rule(whitespace="exact"), False),
    ],
)
def test_output_texts_are_compared_by_the_rule(said, wanted, rule, is_same):
    assert same_text(said, wanted, rule) is is_same


@pytest.mark.parametrize("rule", [Rule(), LOOSE, Rule(1.0)])
def test_different_integers_are_never_equal(rule):
    drawn = random.Random(1)
    for _ in range(500):
        number = drawn.randrange(10 ** drawn.randrange(1, 60))
        other = number + drawn.choice([-1, 1, 10])
        assert not same_text(str(other), str(number), rule)
        assert not is_same_json(other, number, rule)
        assert same_text(str(number), str(number), rule) and is_same_json(number, number, rule)


def test_float_equals_its_usual_printed_forms():
    drawn = random.Random(2)
    for _ in range(500):
        number = drawn.uniform(-1, 1) * 10 ** drawn.randrange(-3, 12)
        assert same_text(repr(number), f"{number:.6f}", Rule())  # the reference is rounded
        assert is_same_json(number * (1 + 2**-50), number, Rule())
        assert not is_same_json(number * 1.0001 + 0.001, number, Rule())


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**70),
        10**5000,
        1.5,
        float("inf"),
        "a\0\ud800",
        [1, [2]],
        (1, (2, [3])),
        {1, 2},
        deque([1]),
        b"\xff",
        2j,
        Fraction(1, 3),
        Decimal("1.10"),
        {"a": {1: 2}},
        {"$": "int"},
        {(1, 2): {3}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_from_a_guest_is_decoded_unchanged(value):
    found = decode(encode(value))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    "document",
    [
        {"$": "x"},
        {"$": "int"},
        {"$": "int", "v": "q"},
        {"$": "set", "v": [[1]]},
        {"$": "fraction", "v": [1, 0]},
        {"$": "ref", "v": 1},
        {"$": "dict", "v": [1]},
        {"$": ["a"], "v": 1},
    ],
)
def test_document_that_guests_never_write_is_refused(document):
    with pytest.raises((ValueError, TypeError)):
        decode(document)
