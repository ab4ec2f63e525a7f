"""The supervisor goes on when it cannot write its record, which only informs others."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from rftweb.supervisor.output import Output
from rftweb.supervisor.program import Program
from rftweb.supervisor.record import read_record, record_path
from rftweb.supervisor.watch import Watch

WAITS = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def watch(tmp_path) -> Watch:
    log = tmp_path / "log"
    program = Program(
        name="explorer",
        stage=1,
        prepare=lambda: ([sys.executable, "-c", WAITS], {}),
        is_ready=lambda _pid: (log / "explorer.log").exists(),
        stop=((signal.SIGTERM, 5.0),),
    )
    return Watch(tmp_path, [program], Output(log, quiet=True))


def block_record(var: Path) -> Path:
    """Put a folder in the place of the record's draft, so that no record can be written."""
    draft = record_path(var).with_suffix(".new")
    draft.mkdir(parents=True)
    return draft


def test_supervisor_restarts_and_stops_its_programs_when_the_record_cannot_be_written(watch):
    block_record(watch.var)

    async def use() -> int:
        running = asyncio.create_task(watch.run())
        await until(lambda: watch.state == "ready" or running.done())
        [child] = watch.children
        child.kill()
        await until(lambda: (child.restarts and child.ready.is_set()) or running.done())
        watch._asked_to_stop()
        return await running

    assert asyncio.run(use()) == 0
    log = (watch.output.folder / "supervisor.log").read_text()
    assert log.count("cannot write") == 1 and "stopped" in log


def test_record_is_written_again_when_it_can_be(watch):
    draft = block_record(watch.var)

    async def use() -> int:
        running = asyncio.create_task(watch.run())
        await until(lambda: watch.state == "ready" or running.done())
        draft.rmdir()
        watch._asked_to_stop()
        return await running

    assert asyncio.run(use()) == 0
    assert '"state": "stopped"' in record_path(watch.var).read_text()


def test_record_that_a_power_failure_emptied_counts_as_none(tmp_path):
    record_path(tmp_path).parent.mkdir()
    record_path(tmp_path).write_bytes(bytes(64))
    assert read_record(tmp_path) is None


async def until(condition, timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)
