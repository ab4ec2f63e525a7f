"""Settings of `make test-long`: many more examples of each property than `make test`, and the tests
marked nightly.
"""

import os
from collections.abc import Collection

import pytest
from hypothesis import HealthCheck, settings

IS_LONG = os.environ.get("RFTWEB_TEST_LONG") == "1"
SOME = 40
TIMES_MORE = 25


def tries(some: int) -> int:
    """Return how many examples to try; `some` is the number in an ordinary run."""
    return some * TIMES_MORE if IS_LONG else some


def nightly_but(values: Collection, kept: Collection) -> list:
    """Return the values as parameters; mark all but `kept` as nightly."""
    nightly = pytest.mark.nightly
    return [value if value in kept else pytest.param(value, marks=nightly) for value in values]


def load() -> None:
    """Set the default number of examples, and do not fail tests on slow machines."""
    settings.register_profile(
        "rftweb",
        max_examples=tries(SOME),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("rftweb")
