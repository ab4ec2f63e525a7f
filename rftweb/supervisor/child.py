"""One supervised program: start, probe, restart with growing pauses, stop in order."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable

from rftweb.parent_death import make_die_with_parent
from rftweb.progress import STALL_S, Progress
from rftweb.supervisor.output import Output
from rftweb.supervisor.program import Program

QUICK_DEATH_S = 10.0  # a process that ends sooner counts as crashed at its start
CRASH_LOOP = 5  # consecutive quick crashes after which the program is given up
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 8.0
PROBE_PERIOD_S = 0.05
SAY_STARTING_S = 15.0  # between two lines about a program that is still starting


class CrashLoop(RuntimeError):
    """A program ended repeatedly right after its start."""


class Child:
    """The process of one Program.

    `state` is waiting, starting, ready, restarting, stopping, stopped or failed. `progress` counts
    signs of progress during the start: a start is given up after `stall_s` seconds without any,
    however long it takes in all.
    """

    def __init__(
        self,
        program: Program,
        marker: dict[str, str],
        output: Output,
        changed: Callable[[], None],
        stall_s: float = STALL_S,
    ) -> None:
        self.program = program
        self.state = "waiting"
        self.pid: int | None = None
        self.restarts = 0
        self.progress = 0
        self.ready = asyncio.Event()
        self._environment = {**os.environ, **program.environment, **marker}
        self._output = output
        self._changed = changed
        self._stall_s = stall_s
        self._lines = 0
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task | None = None
        self._stopping = False

    def begin(self, given_up: Callable[[asyncio.Task], None]) -> None:
        """Start supervising the program.

        `given_up` is called when supervision ends, with the task that may hold the reason.
        """
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(given_up)

    async def _keep(self) -> None:
        """Run the program until `stop`.

        Raises CrashLoop, and exceptions of `prepare` at the first start.
        """
        deaths = 0
        while not self._stopping:
            started = time.monotonic()
            ending = await self._run_once()
            if self._stopping:
                break
            deaths = deaths + 1 if time.monotonic() - started < QUICK_DEATH_S else 1
            if deaths >= CRASH_LOOP:
                self._become("failed")
                raise CrashLoop(
                    f"{self.program.name} {ending}, {deaths} times in a row right after its start;"
                    f" see {self._log()}"
                )
            self.restarts += 1
            self._become("restarting")
            pause = min(FIRST_PAUSE_S * 2 ** (deaths - 1), MAX_PAUSE_S)
            self._output.say(f"{self.program.name} {ending}; starting it again in {pause:.1f} s")
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Send the program's signals in order, each with its time; then kill its group."""
        self._stopping = True
        if self._is_running():
            self._become("stopping")
            for number, grace_s in self.program.stop:
                if await self._end_by(number, grace_s):
                    break
            else:
                self._output.say(f"{self.program.name} did not stop in time; killing it")
        self.kill()
        if self._keeper:
            self._keeper.cancel()  # it may be pausing before a restart
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._become("stopped")

    def end_now(self) -> None:
        """Kill the program, and do not start it again."""
        self._stopping = True
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to the program's whole process group."""
        if self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _run_once(self) -> str:
        """Run the process once; return how it ended."""
        try:
            command, popen = await asyncio.to_thread(self.program.prepare)
        except Exception as error:
            if self.restarts == 0:
                raise
            return f"cannot start ({error})"
        if self._stopping:
            return "was stopped before it began"
        process, output = await self._spawn(command, popen)
        pump = asyncio.create_task(self._pump(output))
        probe = asyncio.create_task(self._probe(process.pid))
        try:
            code = await process.wait()
        finally:
            self.ready.clear()
            self.pid = None
            self.kill()  # kill the rest of its group: pool children, engines
            probe.cancel()
            await asyncio.wait({pump}, timeout=1.0)  # its last output
            pump.cancel()
        return (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )

    async def _spawn(
        self, command: list[str], popen: dict
    ) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader]:
        """Start the process; return it and its output stream.

        The pipe is ours and not asyncio's, whose `wait` returns only when every holder of the pipe
        has ended: an engine that outlives its killed worker would keep the worker from being
        restarted.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env=self._environment,
                start_new_session=True,
                preexec_fn=make_die_with_parent(self.program.death_signal),
                **popen,
            )
        finally:
            os.close(writing)
        self._process = process
        self.pid = process.pid
        self._become("starting")
        output = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb")
        )
        return process, output

    async def _probe(self, pid: int) -> None:
        """Probe until the program is ready.

        A program without progress is killed, which counts as a crash.
        """
        began = time.monotonic()
        say_at = began + SAY_STARTING_S
        progress = Progress(pid, lambda: self._lines, self._stall_s)
        while not await asyncio.to_thread(self.program.is_ready, pid):
            if await asyncio.to_thread(progress.look):
                self.progress += 1
                self._changed()
            taken_s = time.monotonic() - began
            if progress.has_stalled:
                self._output.say(
                    f"{self.program.name} is not ready after {taken_s:.0f} s and has done nothing "
                    f"for {self._stall_s:.0f} s; killing it"
                )
                self.kill()
                return
            if time.monotonic() > say_at:
                say_at += SAY_STARTING_S
                self._output.say(
                    f"{self.program.name} is still starting after {taken_s:.0f} s "
                    f"({progress.cpu_s:.1f} s of processor time, {self._lines} lines)"
                )
            await asyncio.sleep(PROBE_PERIOD_S)
        self._become("ready")
        self.ready.set()

    async def _pump(self, output: asyncio.StreamReader) -> None:
        """Pass on the process's output line by line; an endless line is cut at 64 KiB."""
        partial_line = b""
        while chunk := await output.read(65536):
            *lines, partial_line = (partial_line + chunk).split(b"\n")
            if len(partial_line) > 65536:
                lines = [*lines, partial_line]
                partial_line = b""
            self._lines += len(lines)
            for line in lines:
                self._output.line(self.program.name, line.decode(errors="replace").rstrip("\r"))
        if partial_line:
            self._output.line(self.program.name, partial_line.decode(errors="replace"))

    async def _end_by(self, number: signal.Signals, grace_s: float) -> bool:
        assert self._process is not None  # it runs
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    def _is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def _become(self, state: str) -> None:
        self.state = state
        self._changed()

    def _log(self) -> str:
        return str(self._output.folder / f"{self.program.name}.log")
