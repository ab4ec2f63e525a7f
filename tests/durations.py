"""How long each test file takes: decides the order of files, and which of them `make test-quick`
runs.

`RFTWEB_TEST_DURATIONS=1 make test` writes what it measures to durations.txt, beside this module.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("durations.txt")
TITLE = (
    "# seconds, of which in tests not marked slow, number of these, file: see tests/durations.py"
)
MIN_SECONDS = 2  # files that take less are not listed
QUICK_S = 0.25  # seconds that a test of a quick file takes on average


@dataclass
class Duration:
    """Seconds that a file takes; `unmarked` counts only its tests that are not marked slow."""

    seconds: float = 0.0
    unmarked_seconds: float = 0.0
    unmarked_tests: int = 0

    @property
    def is_long(self) -> bool:
        """Tell whether the file is too long for a quick run, even without its slow tests."""
        if self.unmarked_seconds < MIN_SECONDS:
            return False
        return self.unmarked_seconds > QUICK_S * self.unmarked_tests


def read() -> dict[str, Duration]:
    """Return the recorded durations by file, with the file names of test ids."""
    durations = {}
    for line in RECORD.read_text().splitlines()[1:]:
        seconds, unmarked_seconds, unmarked_tests, file = line.split(maxsplit=3)
        durations[file] = Duration(float(seconds), float(unmarked_seconds), int(unmarked_tests))
    return durations


@cache
def long_files() -> frozenset[str]:
    """Return the files that a quick run leaves out."""
    return frozenset(file for file, duration in read().items() if duration.is_long)


class Recorder:
    """A pytest plugin that writes the durations of this run to the record.

    Files of which this run saw nothing keep their lines.
    """

    def __init__(self) -> None:
        self.measured: dict[str, Duration] = defaultdict(Duration)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        duration = self.measured[report.nodeid.split("::")[0]]
        duration.seconds += report.duration
        if "slow" not in report.keywords:
            duration.unmarked_seconds += report.duration
            duration.unmarked_tests += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        durations = {**read(), **self.measured}
        lines = [
            f"{one.seconds:.0f} {one.unmarked_seconds:.0f} {one.unmarked_tests} {file}"
            for file, one in sorted(durations.items())
            if one.seconds >= MIN_SECONDS
        ]
        RECORD.write_text("\n".join([TITLE, *lines]) + "\n")
