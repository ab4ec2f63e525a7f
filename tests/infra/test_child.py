"""One supervised program: restarted, given up, and stopped with everything it started."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rftweb.supervisor.child import CRASH_LOOP, Child, CrashLoop
from rftweb.supervisor.output import Output
from rftweb.supervisor.program import Program
from tests.descent import is_alive

WAITS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True);"
    " time.sleep(600)"
)
LEAVES_A_CHILD = (
    "import subprocess, sys, time; other = subprocess.Popen([sys.executable, '-c', 'import time;"
    " time.sleep(600)']);print('up', other.pid, flush=True); time.sleep(600)"
)


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def make(log):
    """Return a function that creates children of Python one-liners, which are ready once they print
    `up`.
    """

    def child(code: str, grace_s: float = 5.0, stall_s: float = 60.0) -> Child:
        program = Program(
            name="worker",
            stage=1,
            prepare=lambda: ([sys.executable, "-c", code], {}),
            is_ready=lambda _pid: "up" in said(log),
            stop=((signal.SIGTERM, grace_s),),
        )
        return Child(program, {}, Output(log, quiet=True), lambda: None, stall_s)

    return child


def said(log: Path) -> str:
    path = log / "worker.log"
    return path.read_text() if path.exists() else ""


async def until(condition, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {timeout_s:.0f} s"
        await asyncio.sleep(0.02)


async def ready(child: Child) -> int:
    child.begin(lambda _task: None)
    await asyncio.wait_for(child.ready.wait(), 60)
    return child.pid


async def test_a_killed_program_is_started_again(make):
    child = make(WAITS)
    pid = await ready(child)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: child.restarts == 1 and child.pid not in (None, pid))
    await child.stop()


async def test_program_ended_on_purpose_is_not_started_again(make):
    child = make(WAITS)
    given_up = asyncio.get_running_loop().create_future()
    child.begin(given_up.set_result)
    await asyncio.wait_for(child.ready.wait(), 60)
    child.end_now()
    await asyncio.wait_for(given_up, 60)
    assert child.restarts == 0
    await child.stop()


async def test_program_that_keeps_failing_is_given_up_after_growing_pauses(make, log):
    child = make("raise SystemExit(3)")
    given_up = asyncio.get_running_loop().create_future()
    started = time.monotonic()
    child.begin(given_up.set_result)
    keeper = await asyncio.wait_for(given_up, 180)
    with pytest.raises(CrashLoop, match=f"ended with code 3, {CRASH_LOOP} times"):
        keeper.result()
    assert child.state == "failed"
    assert time.monotonic() - started >= 0.2 + 0.4 + 0.8 + 1.6


async def test_a_program_that_ignores_the_signal_is_killed(make):
    child = make(STUBBORN, grace_s=0.3)
    pid = await ready(child)
    await asyncio.wait_for(child.stop(), 60)
    await until(lambda: not is_alive(pid))


async def test_stopping_a_program_ends_its_child_processes(make, log):
    child = make(LEAVES_A_CHILD)
    await ready(child)
    grandchild = int(said(log).split()[1])
    assert is_alive(grandchild)
    await child.stop()
    await until(lambda: not is_alive(grandchild))


async def test_death_of_a_program_ends_its_child_processes(make, log):
    child = make(LEAVES_A_CHILD)
    pid = await ready(child)
    grandchild = int(said(log).split()[1])
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not is_alive(grandchild))
    await child.stop()


async def test_stop_during_a_restart_pause_starts_nothing(make):
    child = make("raise SystemExit(3)")
    child.begin(lambda _task: None)
    await until(lambda: child.state == "restarting")
    await child.stop()
    assert (child.state, child.pid) == ("stopped", None)


async def test_output_is_logged_in_whole_lines_with_the_unfinished_last_one(make, log):
    child = make("print('one\\ntwo', end='', flush=True); raise SystemExit(0)")
    child.begin(lambda _task: None)
    await until(lambda: child.restarts >= 1)
    await child.stop()
    assert said(log).splitlines()[:2] == ["one", "two"]


SLOW = (
    "import time\nfor n in range(22): print(n, flush=True); time.sleep(0.25)\nprint('up',"
    " flush=True); time.sleep(600)"
)


async def test_slow_start_is_allowed_while_it_makes_progress(make, log):
    """Start a program that takes longer than the stall limit, and writes a line now and then."""
    child = make(SLOW, stall_s=4.0)
    await ready(child)
    assert child.progress >= 1 and "killing it" not in own_words(log)
    await child.stop()


async def test_stalled_start_is_killed_and_tried_again(make, log):
    child = make("import time; time.sleep(600)", stall_s=0.5)
    child.begin(lambda _task: None)
    await until(lambda: child.restarts == 1)
    assert "has done nothing for 0 s; killing it" in own_words(log)
    await child.stop()


def own_words(log: Path) -> str:
    path = log / "supervisor.log"
    return path.read_text() if path.exists() else ""
