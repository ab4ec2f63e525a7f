"""Time to start guests of the sandbox, beside a bare interpreter.

    .venv/bin/python -m bench.sandbox [--seconds 5]

Each start runs `print(1)` to its end. One after the other for the times of a start (p50, p95), then
one more at once than the machine has processors for starts per second. "forked": by the server of
guests (apps/rewards/sandbox/forking.py); "alone": by bubblewrap, prlimit and an interpreter for
each guest, as where no server comes up. Both ways are measured in turns in the same run, and their
ratio is printed. For scale, Kimi k1.5 (arXiv 2501.12599) reports 0.04 s and 120 a second on 16
cores for its own sandbox. The last line is the table as JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from apps.rewards.sandbox import (
    LANGUAGES,
    GuestResult,
    NoTool,
    forking,
    prepare_program,
    require_tool,
)

SOURCES = {
    "python": "print(1)",
    "javascript": "console.log(1)",
    "c": '#include <stdio.h>\nint main(void) { puts("1"); }',
    "c++": '#include <cstdio>\nint main() { std::puts("1"); }',
}
KIMI = {"seconds": 0.04, "per_second": 120, "cores": 16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    measured = {name: measure_starts(start, seconds) for name, start in starts().items()}
    print(
        f"{'':22}{'p50 s':>8}{'p95 s':>8}{'starts/s':>10}   ({os.cpu_count()} processors, load"
        f" {os.getloadavg()[0]:.1f})"
    )
    for name, figures in measured.items():
        print(
            f"{name:22}{figures['p50_s']:8.4f}{figures['p95_s']:8.4f}{figures['per_second']:10.1f}"
        )
    print(f"{'Kimi k1.5, 16 cores':22}{KIMI['seconds']:8.4f}{'':8}{KIMI['per_second']:10.1f}")
    for language in ("python", "c", "c++"):
        forked = measured.get(f"{language}, forked")
        alone = measured.get(f"{language}, alone")
        if forked and alone:
            print(
                f"{language}: forked {forked['per_second'] / alone['per_second']:.1f} times as many"
                " a second as alone"
            )
    if why := forking.why_not_forked():
        print(f"no server of guests: {why}")
    print(
        json.dumps(
            {"processors": os.cpu_count(), "load": os.getloadavg()[0], "kimi": KIMI, **measured}
        )
    )


def starts() -> dict[str, Callable[[], bytes]]:
    """Return what is started, by name: guests of each available language, and bare Python."""
    python = require_tool("python").path
    command = [python, "-S", "-s", "-B", "-c", SOURCES["python"]]
    commands: dict[str, Callable[[], bytes]] = {
        "bare python": lambda: subprocess.run(command, capture_output=True, check=True).stdout
    }
    for language in LANGUAGES:
        try:
            program = prepare_program(SOURCES[language], language)
        except NoTool as missing:
            print(missing)
            continue
        program.run(b"")  # a server that forks guests starts with the first of them
        commands[f"{language}, forked" if hasattr(program, "run_alone") else language] = partial(
            read_stdout, program.run
        )
        if hasattr(program, "run_alone"):
            commands[f"{language}, alone"] = partial(read_stdout, program.run_alone)
    return commands


def read_stdout(run: Callable[[bytes], GuestResult]) -> bytes:
    return run(b"").stdout


def measure_starts(start: Callable[[], bytes], seconds: float) -> dict[str, float]:
    durations: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or len(durations) < 20:
        began = time.monotonic()
        if start() != b"1\n":
            raise RuntimeError("a start gave nothing")
        durations.append(time.monotonic() - began)
    quantiles = statistics.quantiles(durations, n=20)
    return {
        "p50_s": statistics.median(durations),
        "p95_s": quantiles[-1],
        "per_second": starts_per_second(start, seconds),
        "starts": len(durations),
    }


def starts_per_second(start: Callable[[], bytes], seconds: float) -> float:
    """Return starts per second with a thread for each processor, and one that waits meanwhile."""
    several = (os.cpu_count() or 1) + 1
    began = time.monotonic()

    def keep_on(_: int) -> int:
        start_count = 0
        while time.monotonic() < began + seconds:
            start()
            start_count += 1
        return start_count

    with ThreadPoolExecutor(several) as threads:
        start_count = sum(threads.map(keep_on, range(several)))
    return start_count / (time.monotonic() - began)


if __name__ == "__main__":
    main()
