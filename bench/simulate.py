"""Simulate the stations of runs: from processor time per step to steps per second, and the limits.

    python bench/simulate.py [--cores 2] [--runs 1] [--staleness 1] [--figures FILE] [--check]

A model of discrete events. A step of a run is sampled by its explorer as one batch, its groups pass
scorer and refiner in pieces, and its trainer makes the update when all are there; then its weights
let the run sample `staleness` steps ahead. Every job needs processor time, and all jobs share the
cores evenly. What a job costs in PostgreSQL is part of it, because its worker waits meanwhile.

Service times are those of `bench/loop.py` (`processor_by_role`, in seconds of a whole run), taken
from the JSON in `--figures`, or the recorded ones of the `sort` run. `--check` runs that stack here
and compares the simulated interval between two updates with the measured one; exit code 1 beyond
MAX_ERROR. The machine must be otherwise idle for that. The last line on standard output is JSON.
"""

import argparse
import heapq
import itertools
import json
import statistics
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

STATIONS = ("explorer", "scorer", "refiner", "trainer")
# Milliseconds of processor time per step of the `sort` run (16 groups of 8) in the whole stack, and
# statements per step; two cores, 27 November 2026 (docs/operations.md).
RECORDED_MS = {"explorer": 113.0, "scorer": 36.0, "refiner": 25.0, "trainer": 129.0}
POSTGRES_MS = 55.0
STATEMENTS = {"explorer": 32, "scorer": 16, "refiner": 15, "trainer": 51}
RECORDED_INTERVAL_MS = 192.0
RECORDED_CORES = 2
OTHER_SHARE = 0.06  # cores: web, Redis, control and beat, of an installation that waits
HAND_OVER_MS = 1.5  # from a commit to the first statement of the worker that it wakes
PIECES = 4  # in which groups pass scorer and refiner
WARM_STEPS = 20
MAX_ERROR = 0.2


@dataclass(frozen=True)
class Service:
    """Milliseconds of processor time of one step at each station, PostgreSQL's share included."""

    ms: Mapping[str, float]

    @classmethod
    def of(cls, stations: Mapping[str, float], postgres: float) -> "Service":
        """Give each station the share of PostgreSQL that its statements have."""
        total = sum(STATEMENTS.values())
        return cls(
            {name: stations[name] + postgres * STATEMENTS[name] / total for name in STATIONS}
        )

    @property
    def step_ms(self) -> float:
        return sum(self.ms.values())


@dataclass
class Processor:
    """Cores that all jobs share evenly: each has at most one core, and an equal part of them."""

    cores: float
    now: float = 0.0
    served: float = 0.0  # processor time that a job which was always there would have had
    jobs: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: itertools.count = field(default_factory=itertools.count)

    def work(self, ms: float, then: Callable[[], None]) -> None:
        heapq.heappush(self.jobs, (self.served + ms, next(self.numbers), then))

    def later(self, ms: float, then: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (self.now + ms, next(self.numbers), then))

    def next_event(self) -> None:
        """Go on to the next end of a job or of a pause."""
        rate = min(1.0, self.cores / len(self.jobs)) if self.jobs else 0.0
        ends = self.now + (self.jobs[0][0] - self.served) / rate if self.jobs else float("inf")
        rings = self.timers[0][0] if self.timers else float("inf")
        at = min(ends, rings)
        self.served += (at - self.now) * rate
        self.now = at
        *_, then = heapq.heappop(self.jobs if ends <= rings else self.timers)
        then()


class Station:
    """Workers that take jobs in turn, each one at a time."""

    def __init__(self, processor: Processor, workers: int) -> None:
        self.processor = processor
        self.free = workers
        self.waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self.busy_ms = 0.0

    def take(self, ms: float, then: Callable[[], None]) -> None:
        self.waiting.append((ms, then))
        self._begin()

    def _begin(self) -> None:
        if not self.free or not self.waiting:
            return
        self.free -= 1
        ms, then = self.waiting.popleft()
        began = self.processor.now

        def end() -> None:
            self.free += 1
            self.busy_ms += self.processor.now - began
            then()
            self._begin()

        self.processor.work(ms, end)


class SimulatedRun:
    """A run of endless steps; `ended_ms` are the times of its updates."""

    def __init__(self, stations: Mapping[str, Station], service: Service, staleness: int) -> None:
        self.stations = stations
        self.service = service
        self.ahead = staleness + 1
        self.begun = 0
        self.is_sampling = False
        self.left: dict[int, int] = {}
        self.ended_ms: list[float] = []
        self.processor = stations["trainer"].processor

    def sample(self) -> None:
        """Sample the next step, unless that is under way or too far ahead of the weights."""
        if self.is_sampling or self.begun - len(self.ended_ms) >= self.ahead:
            return
        step = self.begun
        self.begun += 1
        self.left[step] = PIECES
        self.is_sampling = True

        def sampled() -> None:
            self.is_sampling = False
            for _ in range(PIECES):
                self._hand_over("scorer", lambda: self._scored(step))
            self.sample()

        self.stations["explorer"].take(self.service.ms["explorer"], sampled)

    def _scored(self, step: int) -> None:
        self._hand_over("refiner", lambda: self._refined(step))

    def _refined(self, step: int) -> None:
        self.left[step] -= 1
        if not self.left[step]:
            del self.left[step]
            self.processor.later(
                HAND_OVER_MS,
                lambda: self.stations["trainer"].take(self.service.ms["trainer"], self._trained),
            )

    def _hand_over(self, station: str, then: Callable[[], None]) -> None:
        ms = self.service.ms[station] / PIECES
        self.processor.later(HAND_OVER_MS, lambda: self.stations[station].take(ms, then))

    def _trained(self) -> None:
        self.ended_ms.append(self.processor.now)
        self.processor.later(HAND_OVER_MS, self.sample)


def simulate(
    service: Service,
    cores: float,
    runs: int = 1,
    staleness: int = 1,
    workers: Mapping[str, int] | None = None,
    steps: int = 200,
) -> dict[str, Any]:
    """Return the interval between two updates of a run, all steps a second, and how busy each is.

    `workers`: processes of each station; by default one.
    """
    processor = Processor(max(cores - OTHER_SHARE, 0.1))
    stations = {name: Station(processor, (workers or {}).get(name, 1)) for name in STATIONS}
    live = [SimulatedRun(stations, service, staleness) for _ in range(runs)]
    for run in live:
        run.sample()
    while min(len(run.ended_ms) for run in live) < WARM_STEPS + steps:
        processor.next_event()
    gaps = [
        after - before
        for run in live
        for before, after in itertools.pairwise(run.ended_ms[WARM_STEPS:])
    ]
    ended = sum(len(run.ended_ms) for run in live)
    return {
        "interval_ms": round(statistics.mean(gaps), 1),
        "steps_per_s": round(1000 * ended / processor.now, 2),
        "processor_share": round(ended * service.step_ms / processor.now / cores, 3),
        "busy": {
            name: round(station.busy_ms / processor.now / (workers or {}).get(name, 1), 3)
            for name, station in stations.items()
        },
    }


def service_of(figures: Mapping[str, Any]) -> Service:
    """Return the service times of a measured run (`bench/loop.py`)."""
    step_ms = 1000 / figures["steps"]
    by_role = figures["processor_by_role"]
    stations = {name: by_role[name] * step_ms for name in STATIONS}
    return Service.of(stations, by_role["postgres"] * step_ms)


def measure_here(steps: int) -> dict[str, Any]:
    """Run the stack of `bench/loop.py` here, without its bare counterpart."""
    from bench.loop import PLAN, build_policy, last_json, where_the_seconds_go

    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as var:
        policy = build_policy(argparse.Namespace(parameters=None), Path(var))
        options = ["--plan", PLAN, "--policy", policy, "--steps", steps, "--var", var]
        stack = last_json(["stack_loop.py", *options, "--port", 8321])
        interval_s = where_the_seconds_go(Path(var))["step_interval"]
    return {
        "steps": steps,
        "processor_by_role": stack["by_role"],
        "step_interval_s": interval_s,
    }


def main() -> int:
    options = parse_options()
    service = Service.of(RECORDED_MS, POSTGRES_MS)
    measured_ms = RECORDED_INTERVAL_MS
    if options.check or options.figures:
        figures = (
            measure_here(options.steps)
            if options.check
            else json.loads(options.figures.read_text().splitlines()[-1])
        )
        service = service_of(figures)
        measured_ms = 1000 * figures["step_interval_s"]
    result = simulate(service, options.cores, options.runs, options.staleness)
    print_simulation(service, result)
    is_measured = options.check or options.figures or options.cores == RECORDED_CORES
    if is_measured and options.runs == 1 and options.staleness == 1:
        error = result["interval_ms"] / measured_ms - 1
        result |= {"measured_interval_ms": round(measured_ms, 1), "error": round(error, 3)}
        print(f"measured interval {measured_ms:.0f} ms: the model is {error:+.0%} off")
    print(json.dumps(result))
    return int(options.check and abs(result["error"]) > MAX_ERROR)


def print_simulation(service: Service, result: Mapping[str, Any]) -> None:
    print(f"{'station':10} {'ms a step':>10} {'busy':>6}")
    for name in STATIONS:
        print(f"{name:10} {service.ms[name]:10.1f} {result['busy'][name]:6.0%}")
    print(
        f"interval {result['interval_ms']} ms, {result['steps_per_s']} steps/s,"
        f" {result['processor_share']:.0%} of the cores"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--staleness", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60, help="steps of the run of --check")
    parser.add_argument(
        "--figures", type=Path, help="file that ends with the JSON of bench/loop.py"
    )
    parser.add_argument(
        "--check", action="store_true", help=("run the stack on this machine and compare")
    )
    options = parser.parse_args()
    if options.check and (options.runs, options.staleness) != (1, 1):
        parser.error("--check: only with --runs 1 and --staleness 1, as the run is")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
