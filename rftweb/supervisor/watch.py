"""The supervisor: starts programs stage by stage, restarts them, stops them in reverse order."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path

from rftweb.places import PROGRAM
from rftweb.progress import SAMPLE_S, Progress
from rftweb.supervisor import leftovers, record
from rftweb.supervisor.child import Child
from rftweb.supervisor.output import Output
from rftweb.supervisor.program import SERVICE_STAGE, WORK_STAGE, Program

# Order of stopping: first processes that create work, then those that do it, then those that show
# it, then the services.
STOP_ORDER = (
    ("beat", "rater"),
    ("explorer", "scorer", "refiner", "trainer", "control"),
    ("web",),
    ("valkey",),
    ("postgres",),
)


class MigrationFailed(RuntimeError):
    """The database could not be migrated to the schema of this code."""


class Watch:
    """Runs programs until SIGINT or SIGTERM, or until one of them is given up. One per `var`.

    address: of the web process, for the record; empty without one. migrate: migrate the database
    before work starts. Signals and notices of ended children belong to the main thread: run it
    there, in a process of its own.
    """

    def __init__(
        self,
        var: Path,
        programs: Sequence[Program],
        output: Output,
        address: str = "",
        migrate: bool = False,
    ) -> None:
        self.var = var
        self.programs = programs
        self.address = address
        self.output = output
        self.migrate = migrate
        self.state = "starting"
        self.started_at = time.time()
        self.id = leftovers.marker_prefix(var) + secrets.token_hex(4)
        self.children: list[Child] = []
        self.migration_progress = 0
        self._is_record_written = True

    async def run(self) -> int:
        """Return the exit code: 0 after a requested stop, 1 after a failure."""
        self._ended: asyncio.Future = asyncio.get_running_loop().create_future()
        with record.lock_record(self.var):
            self._sweep()
            self._take_signals()
            try:
                if await self._unless_ended(self._start()):
                    await self._ended
            # whatever a start or a supervised child raised: report it, stop the rest, return
            # failure
            except Exception as error:
                self.output.say(f"giving up: {error}")
                return 1
            finally:
                await self._stop()
                self.output.close()
        return 0

    async def _start(self) -> None:
        marker = {leftovers.MARKER: self.id}
        self.children = [
            Child(program, marker, self.output, self._write_record) for program in self.programs
        ]
        for stage in sorted({child.program.stage for child in self.children}):
            if stage == WORK_STAGE and self.migrate:
                await self._migrate(marker)
            await self._start_stage(
                [child for child in self.children if child.program.stage == stage]
            )
        self.state = "ready"
        self._write_record()
        where = f" at {self.address}" if self.address else ""
        self.output.say(f"everything is up{where} after {time.time() - self.started_at:.1f} s")

    async def _start_stage(self, children: list[Child]) -> None:
        self.output.say("starting " + ", ".join(child.program.name for child in children))
        for child in children:
            child.begin(self._on_child_abandoned)
        await asyncio.gather(*(child.ready.wait() for child in children))

    async def _migrate(self, marker: dict[str, str]) -> None:
        """Migrate the database to this code's schema, in a separate process."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            "migrate",
            "--noinput",
            env={**os.environ, **marker},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        watching = asyncio.create_task(self._watch_migrations(process.pid))
        assert process.stdout is not None  # a pipe
        async for line in process.stdout:
            self.output.line("migrate", line.decode(errors="replace").rstrip())
        code = await process.wait()
        watching.cancel()
        if code != 0:
            raise MigrationFailed(f"migrations failed; see {self.output.folder / 'migrate.log'}")

    async def _watch_migrations(self, pid: int) -> None:
        """Record the progress of migrations, for processes that wait for the record."""
        progress = Progress(pid, lambda: 0)
        while True:
            if await asyncio.to_thread(progress.look):
                self.migration_progress += 1
                self._write_record()
            await asyncio.sleep(SAMPLE_S)

    async def _unless_ended(self, work: Awaitable) -> bool:
        """Do `work` unless a stop is requested (returns False) or a child is given up (raises)."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ended.done():
            await task
            return True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._ended.result()
        return False

    def _on_child_abandoned(self, keeper: asyncio.Task) -> None:
        error = None if keeper.cancelled() else keeper.exception()
        if error and not self._ended.done():
            self._ended.set_exception(error)

    async def _stop(self) -> None:
        self.state = "stopping"
        for roles in STOP_ORDER:
            await asyncio.gather(
                *(child.stop() for child in self.children if child.program.role in roles)
            )
        survivors = leftovers.find_marked_processes(self.id).union(
            *(program.kin() for program in self.programs)
        )
        if survivors:
            self.output.say(f"killing {len(survivors)} left-over processes: {sorted(survivors)}")
            leftovers.kill_processes(survivors)
        self.state = "stopped"
        self._write_record()
        self.output.say("stopped")

    def _sweep(self) -> None:
        """End processes that the children of a killed supervisor of this `var` left running."""
        if pids := leftovers.find_marked_processes(leftovers.marker_prefix(self.var)):
            self.output.say(f"ending {len(pids)} left-over processes of a supervisor that is gone")
            leftovers.kill_processes(pids)

    def _take_signals(self) -> None:
        """Stop in order at the first SIGINT, SIGTERM or SIGHUP; kill at the second.

        SIGHUP comes when the terminal is closed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._asked_to_stop)

    def _asked_to_stop(self) -> None:
        if self._ended.done():
            for child in self.children:
                if child.program.stage != SERVICE_STAGE:  # the database is still shut down in order
                    child.end_now()
            return
        self.output.say("stopping; once more to hurry")
        self._ended.set_result(None)

    def _write_record(self) -> None:
        """Write the record, which others read; without it (the disk is full) everything goes on."""
        try:
            record.write_record(self.var, self._build_record())
        except OSError as error:
            if self._is_record_written:
                path = record.record_path(self.var)
                self.output.say(f"cannot write {path} ({error.strerror}); going on without it")
            self._is_record_written = False
        else:
            self._is_record_written = True

    def _build_record(self) -> dict[str, object]:
        return {
            "id": self.id,
            "pid": os.getpid(),
            "state": self.state,
            "started_at": self.started_at,
            "address": self.address,
            "migration_progress": self.migration_progress,
            "children": {child.program.name: _describe_child(child) for child in self.children},
        }


def _describe_child(child: Child) -> dict[str, object]:
    return {
        "pid": child.pid,
        "state": child.state,
        "restarts": child.restarts,
        "progress": child.progress,
    }
