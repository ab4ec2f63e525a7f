"""CI reruns failed slow tests once, and reports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
[pytest]
addopts = -p xdist
markers = slow: takes long
"""
TESTS = """
import pathlib, pytest
attempts = pathlib.Path(__file__).with_name("attempts.txt")

@pytest.fixture(scope="module")
def of_the_file():
    return []

@pytest.mark.slow
def test_slow(of_the_file):
    with attempts.open("a") as file:
        file.write("x")
    of_the_file.append(1)
    assert of_the_file == [1] and len(attempts.read_text()) > {failures}

def test_quick():
    assert {quick_passes}
"""


def run(folder: Path, failures: int, quick_passes: bool = True) -> tuple[int, str, int]:
    """Return the exit status, the output, and how often the slow test ran."""
    (folder / "pytest.ini").write_text(SETTINGS)
    source = TESTS.format(failures=failures, quick_passes=quick_passes)
    (folder / "test_them.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.rerunning", "-n", "1"]
    # Only the plugin xdist is loaded: others would load Django in each of the processes.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, len((folder / "attempts.txt").read_text())


def test_slow_test_that_passes_on_the_rerun_is_reported_and_the_run_succeeds(tmp_path):
    status, output, attempts = run(tmp_path, failures=1)
    assert (status, attempts) == (0, 2), output
    first, _, second = output.partition("rerun, once")
    assert "1 failed, 1 passed" in first
    assert "PASSED test_them.py::test_slow" in second and "1 passed" in second


def test_slow_test_that_fails_twice_fails_the_run(tmp_path):
    status, output, attempts = run(tmp_path, failures=2)
    assert (status, attempts) == (1, 2), output
    assert "FAILED test_them.py::test_slow" in output.partition("rerun, once")[2]


def test_no_test_is_rerun_when_a_test_that_is_not_slow_failed(tmp_path):
    status, output, attempts = run(tmp_path, failures=1, quick_passes=False)
    assert (status, attempts) == (1, 1), output
    assert "rerun, once" not in output


@pytest.mark.parametrize("target", ["test-long", "test-quick"])
def test_only_make_test_in_ci_reruns_failed_tests(target):
    def commands(name: str, **environment: str) -> str:
        done = subprocess.run(
            ["make", "--dry-run", name],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert "tests.rerunning" in commands("test", CI="true")
    assert "tests.rerunning" not in commands("test")
    assert "tests.rerunning" not in commands(target, CI="true")
