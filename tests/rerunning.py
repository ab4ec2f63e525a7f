"""A pytest plugin for CI (`-p tests.rerunning`): reruns failed slow tests once.

Tests on stacks, in browsers and with other processes may fail by chance. One that passes the second
time does not fail the run, but it is listed in the output, and is a bug to be fixed. Other failed
tests are not rerun, and neither are too many at once: then something is broken.

The second run is a separate process. pytest-rerunfailures reruns a test between the fixtures of its
file: on an installation with the runs of the first attempt, whose names are taken, or on one that
has been stopped after the file's last test.
"""

import os
import subprocess
import sys

import pytest

MAX_RERUNS = 5
HUNG = "from pytest-timeout"  # a test that hung would hang again
rerun: dict[str, bool] = {}  # whether a failed test may be rerun, by its id


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        may_rerun = "slow" in report.keywords and HUNG not in report.longreprtext
        rerun[report.nodeid] = rerun.get(report.nodeid, True) and may_rerun


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> int:
    """Return the status of the second run, if there is one."""
    status = yield
    if hasattr(config, "workerinput") or status != pytest.ExitCode.TESTS_FAILED:
        return status
    if not rerun or len(rerun) > MAX_RERUNS or not all(rerun.values()):
        return status
    names = "\n".join(f"  {nodeid}" for nodeid in rerun)
    print(f"\nrerun, once, in a process of its own:\n{names}", flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "0", "-v", "-rfEp", *rerun]
    return subprocess.run(command, env=_callers_environment(), check=False).returncode


def _callers_environment() -> dict[str, str]:
    """Return the environment without the servers of this process, which have been stopped."""
    from tests.services import OURS  # this import starts servers unless it was done before

    ours = os.environ.get(OURS, "").split()
    left_out = {*ours, OURS, "RFTWEB_VAR"} if ours else set()
    return {name: value for name, value in os.environ.items() if name not in left_out}
