"""How many examples Hypothesis tries: some in every run, many at night (`make test-long`)."""

import os

from hypothesis import HealthCheck, settings

IS_LONG = os.environ.get("RFTWEB_TEST_LONG") == "1"
SOME = 40
TIMES_MORE = 25


def tries(some: int) -> int:
    """Return how many examples to try; `some` is the number in an ordinary run."""
    return some * TIMES_MORE if IS_LONG else some


def load() -> None:
    """Set the number for tests that name none, and take no machine's slowness for a fault."""
    settings.register_profile(
        "rftweb",
        max_examples=tries(SOME),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("rftweb")
