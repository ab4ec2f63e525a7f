"""No regular expression of ours takes more than linear time on long runs of its characters."""

import json
import subprocess
import sys

import pytest

from tests.architecture.regex_sources import ROOT, Expression, expressions
from tests.architecture.regex_timing import SLOW_S, slowest

# Patterns applied only to short texts of ours, by location and reason; never to external input.
BOUNDED: dict[str, str] = {}


def slow_ones(found: list[Expression]) -> list[str]:
    asked = json.dumps([[one.pattern, one.flags, one.method] for one in found])
    command = [sys.executable, "-m", "tests.architecture.regex_timing"]
    done = subprocess.run(
        command, cwd=ROOT, input=asked, text=True, capture_output=True, timeout=600, check=True
    )
    told = json.loads(done.stdout)
    return [
        f"{found[number].place} {found[number].pattern!r}: {taken} s on {text}"
        for number, taken, text in told
    ]


def test_all_regular_expressions_are_collected():
    places = [one.place for one in expressions()]
    assert len(places) > 150
    for known in (
        "apps/accounts/redacting.py",
        "apps/rewards/",
        "apps/tasksets/sources/hub.py",
        "workers/",
    ):
        assert any(place.startswith(known) for place in places), known


# The last five were in our source.
SLOW = [
    (r"(a+)+$", "search"),
    (r"\s+$", "search"),
    (r"(aa|a)*!", "fullmatch"),
    (r"(.*?)(\d*)([+-]+)", "search"),
    (r"answer\s*:?\s*(-?[0-9]{1,15})(?![0-9])", "search"),
    (r",?\s+(?:but|however)\s+", "search"),
    (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", "fullmatch"),
    (r"_\s*\{?\s*(\d+)\s*\}?", "search"),
    (r"(?:[A-Za-z]{1,20}|\d{1,2}|[-*/^().\s])*", "fullmatch"),
]


@pytest.mark.slow
def test_slow_patterns_are_found():
    asked = [Expression(pattern, pattern, 0, method) for pattern, method in SLOW]
    assert len(slow_ones(asked)) == len(SLOW)


def test_linear_pattern_is_not_reported():
    assert slowest(r"\A[a-z0-9]+(-[a-z0-9]+)*\Z", 0, "search")[0] < SLOW_S


@pytest.mark.slow
def test_no_regular_expression_of_the_product_is_slow():
    asked = [one for one in expressions() if one.place.rpartition(":")[0] not in BOUNDED]
    assert slow_ones(asked) == []
