"""How quickly guests of the sandbox start, beside a bare interpreter: `.venv/bin/python -m bench.sandbox [--seconds 5]`.

Each start runs `print(1)` to its end. One after the other for the times of a start (p50, p95), then as many at once as the machine
has processors for starts per second. For scale, Kimi k1.5 (arXiv 2501.12599) reports 0.04 s and 120 a second on 16 cores for its
own sandbox. The last line is the table as JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from apps.rewards.sandbox import LANGUAGES, NoTool, prepare, require

SOURCES = {
    "python": "print(1)", "javascript": "console.log(1)", "c": "#include <stdio.h>\nint main(void) { puts(\"1\"); }",
    "c++": "#include <cstdio>\nint main() { std::puts(\"1\"); }",
}  # fmt: skip
KIMI = {"seconds": 0.04, "per_second": 120, "cores": 16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    measured = {name: measure(start, seconds) for name, start in starts().items()}
    print(f"{'':22}{'p50 s':>8}{'p95 s':>8}{'starts/s':>10}   ({os.cpu_count()} processors, load {os.getloadavg()[0]:.1f})")
    for name, found in measured.items():
        print(f"{name:22}{found['p50_s']:8.4f}{found['p95_s']:8.4f}{found['per_second']:10.1f}")
    print(f"{'Kimi k1.5, 16 cores':22}{KIMI['seconds']:8.4f}{'':8}{KIMI['per_second']:10.1f}")
    print(json.dumps({"processors": os.cpu_count(), "load": os.getloadavg()[0], "kimi": KIMI, **measured}))


def starts() -> dict[str, Callable[[], bytes]]:
    """What is started, by its name: guests of each language that is here, and the same interpreter bare."""
    python = require("python").path
    command = [python, "-S", "-s", "-B", "-c", SOURCES["python"]]
    found: dict[str, Callable[[], bytes]] = {"bare python": lambda: subprocess.run(command, capture_output=True, check=True).stdout}
    for language in LANGUAGES:
        try:
            program = prepare(SOURCES[language], language)
        except NoTool as missing:
            print(missing)
            continue
        found[f"guest, {language}"] = lambda program=program: program.run(b"").stdout
    return found


def measure(start: Callable[[], bytes], seconds: float) -> dict[str, float]:
    taken: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or len(taken) < 20:
        began = time.monotonic()
        if start() != b"1\n":
            raise RuntimeError("a start gave nothing")
        taken.append(time.monotonic() - began)
    quantiles = statistics.quantiles(taken, n=20)
    return {"p50_s": statistics.median(taken), "p95_s": quantiles[-1], "per_second": together(start, seconds), "starts": len(taken)}


def together(start: Callable[[], bytes], seconds: float) -> float:
    """Starts per second with a thread for each processor."""
    several = os.cpu_count() or 1
    began = time.monotonic()

    def keep_on(_: int) -> int:
        done = 0
        while time.monotonic() < began + seconds:
            start()
            done += 1
        return done

    with ThreadPoolExecutor(several) as threads:
        done = sum(threads.map(keep_on, range(several)))
    return done / (time.monotonic() - began)


if __name__ == "__main__":
    main()
