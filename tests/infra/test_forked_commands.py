"""A forked command prints and returns the same as manage.py in a separate process."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.forked_commands import ForkedCommands

SAYS = "import sys; print('said'); print('warned', file=sys.stderr); "


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    """Start one process that loads the application, which takes 2 s."""
    forked = ForkedCommands(os.environ)
    yield forked
    forked.stop()


@pytest.mark.parametrize(
    ("ends", "code", "last"),
    [
        ("", 0, "warned"),
        ("sys.exit(3)", 3, "warned"),
        ("sys.exit('in words')", 1, "in words"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_forked_command_returns_exit_code_output_and_errors(commands, ends, code, last):
    done = commands.run(("shell", "-v", "0", "-c", SAYS + ends), 60)
    assert (done.returncode, done.stdout) == (code, "said\n")
    assert done.stderr.splitlines()[-1] == last


def test_forked_command_does_not_see_memory_of_the_previous_one(commands):
    commands.run(("shell", "-v", "0", "-c", "import rftweb; rftweb.left = 1"), 60)
    found = commands.run(("shell", "-v", "0", "-c", "import rftweb; rftweb.left"), 60)
    assert "AttributeError" in found.stderr


def test_forked_command_that_times_out_is_killed_and_the_next_one_runs(commands):
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(("shell", "-v", "0", "-c", "import time; time.sleep(600)"), 0.5)
    assert commands.run(("algorithms",), 60).returncode == 0
