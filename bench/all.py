"""Run every benchmark at a small size, and compare its ratios with the recorded ones.

    python bench/all.py [--only loop,buffer] [--record]

Each benchmark is a process of its own, ended after LIMIT_S; together they take about a quarter of
an hour on two quiet cores. Only ratios are compared, as they depend little on the machine.

The record (bench/record.json) holds three runs of each. A figure is marked as worse when it lies
beyond the worst of the three by more than the three differ among themselves, and at least by
MIN_CHANGE. `--record` runs each benchmark three times and writes the record.

The last line is one JSON object: `figures`, `worse` and `failed`; the exit code is 1 if a figure is
worse or a benchmark failed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "bench" / "record.json"
LIMIT_S = 300.0
RECORDED_RUNS = 3
MIN_CHANGE = 0.1  # share of the recorded figure


@dataclass(frozen=True)
class Figure:
    """One ratio of a benchmark's JSON: the value at `path`, divided by that at `over` if given."""

    name: str
    path: tuple[str | int, ...]
    over: tuple[str | int, ...] = ()
    more_is_better: bool = True

    def read(self, report: Mapping[str, Any]) -> float:
        """Return the ratio. Raises KeyError or TypeError where the benchmark reported none."""
        value = _at(report, self.path)
        return round(value / _at(report, self.over), 3) if self.over else round(value, 3)


@dataclass(frozen=True)
class Benchmark:
    """A script of this folder with the options of a short run, and the figures to compare."""

    script: str
    options: tuple[str, ...]
    figures: tuple[Figure, ...]

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", f"bench.{self.script}", *self.options]


def less(name: str, *path: str) -> Figure:
    """Return a figure of which less is better."""
    return Figure(name, path, more_is_better=False)


def more(name: str, *path: str) -> Figure:
    """Return a figure of which more is better."""
    return Figure(name, path)


def grown(name: str, what: str) -> Figure:
    """Return the processor time at the largest size, divided by that at the smallest."""
    spent = (what, "cpu_ms")
    return Figure(name, (*spent, -1), (*spent, 0), more_is_better=False)


BENCHMARKS = (
    Benchmark(
        "loop",
        ("--steps", "20"),
        (
            less("seconds of a run, over one process", "stack_over_bare"),
            less("seconds between updates, over one process", "interval_over_bare"),
        ),
    ),
    Benchmark(
        "buffer",
        ("--experiences", "1024"),
        (
            more("rows written, over COPY", "write_over_copy"),
            more("rows read, over a bare claim", "read_over_copy"),
        ),
    ),
    Benchmark(
        "rollout_overhead",
        ("--concurrent", "32", "--tokens", "64", "--rounds", "2", "--parameters", "3e6"),
        (more("tokens/s of the explorer, over the engine", "explored_over_bare"),),
    ),
    Benchmark(
        "trainer_overhead",
        ("--parameters", "1e6", "--tokens", "256", "--rows", "16"),
        (more("tokens/s of an update, over TRL", "ratio"),),
    ),
    Benchmark(
        "weight_sync",
        ("--parameters", "3e6", "--repeats", "3"),
        (less("publish and load, over the bare bytes", "3000000", "total_over_copy"),),
    ),
    Benchmark(
        "sandbox",
        ("--seconds", "2"),
        (
            Figure(
                "starts/s of a forked guest, over bare Python",
                ("python, forked", "per_second"),
                ("bare python", "per_second"),
            ),
        ),
    ),
    Benchmark(
        "live_watchers",
        ("--watchers", "50", "--seconds", "6"),
        (
            more("p99 delay of group_send, over the hub", "p99_ratio"),
            more("processor share of group_send, over the hub", "cpu_ratio"),
        ),
    ),
    Benchmark(
        "rating_api",
        ("--sizes", "1000,100000", "--seconds", "4", "--claims", "500"),
        (less("next item at 100,000 waiting, over 1,000", "next_p50_100k_over_1k"),),
    ),
    Benchmark(
        "partial",
        ("--steps", "4", "--groups", "4"),
        (more("tokens/s of over-rollout and slices, over synchronous", "ratio_4"),),
    ),
    Benchmark(
        "seats",
        ("--rounds", "1", "--seconds", "20"),
        (
            more("updates/s with waiting runs, over without", "throughput_ratio"),
            less("time of a call with waiting runs, over without", "call_ratio"),
        ),
    ),
    Benchmark(
        "environments",
        ("--seconds", "3", "--clients", "4"),
        (
            Figure(
                "turn of a client, over its engine's time",
                ("tiny_push_1_ms",),
                ("tiny_bare_ms",),
                more_is_better=False,
            ),
            Figure(
                "turns/s of four clients, over one",
                ("instant_push_4_turns_per_s",),
                ("instant_push_1_turns_per_s",),
            ),
        ),
    ),
    Benchmark(
        "growth",
        ("--rounds", "3"),
        (
            grown("draw by success at 10,000 tasks, over 1,000", "draw: bots"),
            grown("draw by domain at 10,000 tasks, over 1,000", "draw: mixture"),
            grown("claim of a batch beside 10,000 rollouts, over 1,000", "batch claimed"),
            grown("sweep at 100 runs, over 10", "sweep, by runs"),
        ),
    ),
    Benchmark(
        "stations",
        ("--steps", "12"),
        tuple(
            less(f"statements of a step: {station}", "stations", station, "statements")
            for station in ("explorer", "scorer", "refiner", "trainer")
        ),
    ),
    Benchmark("graders", (), (more("share of right verdicts", "accuracy"),)),
    Benchmark(
        "idle",
        ("--window", "20"),
        (
            less("processor share, nothing live", "idle", "cpu_share"),
            less("processor share, a run that waits", "waiting", "cpu_share"),
        ),
    ),
)
# The other scripts that can be run, and why they are not run here.
LEFT_OUT = {
    "bare_loop": "part of `loop` and `learning`",
    "stack_loop": "part of `loop` and `learning`",
    "reference_storage": "part of `buffer --reference`, with packages of its own",
    "simulate": "a model; its check needs an idle machine",
    "sized_policy": "builds a policy and measures nothing",
    "dashboard": "tables of a million rows",
    "pages": "every page in a browser, cold and warm: longer than a sample run",
    "data_sets": "runs of an hour that learn",
    "human_loop": "runs of an hour that learn",
    "learning": "runs of an hour that learn",
    "people_offline": "runs of an hour that learn",
    "engine_speed": "tokens a second, without anything to divide by",
    "rate_page": "needs a browser",
    "real_model": "needs the weights of a language model",
}


def main() -> int:
    options = parse_options()
    chosen = [
        benchmark
        for benchmark in BENCHMARKS
        if not options.only or benchmark.script in options.only
    ]
    runs = RECORDED_RUNS if options.record else 1
    figures: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for benchmark in chosen:
        for _ in range(runs):
            append_figures(benchmark, figures, failed)
    recorded = read_record()
    worse = print_table(chosen, figures, recorded)
    for script, reason in failed.items():
        print(f"failed: {script}: {reason}")
    if options.record:
        write_record({**recorded, **figures})
    print(json.dumps({"figures": figures, "worse": worse, "failed": failed}))
    return 1 if failed or (worse and not options.record) else 0


def append_figures(
    benchmark: Benchmark, figures: dict[str, list[float]], failed: dict[str, str]
) -> None:
    """Run the benchmark, and append its figures or the reason why there are none."""
    began = time.monotonic()
    try:
        report = run_benchmark(benchmark.command)
        for figure in benchmark.figures:
            value = figure.read(report)
            figures.setdefault(figure_key(benchmark, figure), []).append(value)
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        failed[benchmark.script] = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    print(f"{benchmark.script}: {seconds:.0f} s", file=sys.stderr, flush=True)


def run_benchmark(command: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object in the last line that the command prints.

    Raises SubprocessError past LIMIT_S, and ValueError where there is no such line. An exit code
    says only that an aim was missed.
    """
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    lines = ended.stdout.strip().splitlines()
    if not lines:
        reason = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise ValueError(reason[-1])
    return json.loads(lines[-1])


def print_table(
    chosen: Sequence[Benchmark],
    figures: Mapping[str, Sequence[float]],
    recorded: Mapping[str, Sequence[float]],
) -> list[str]:
    """Print each figure beside the recorded ones, and return the names of those that are worse."""
    worse = []
    print(f"{'figure':70} {'now':>8}  recorded")
    for benchmark in chosen:
        for figure in benchmark.figures:
            key = figure_key(benchmark, figure)
            if key not in figures:
                continue
            now = sorted(figures[key])[len(figures[key]) // 2]
            before = recorded.get(key, [])
            is_worse = bool(before) and fell(now, before, figure.more_is_better)
            worse += [key] * is_worse
            text = " ".join(f"{value:g}" for value in before) or "-"
            print(f"{key:70} {now:>8g}  {text}{'  worse' * is_worse}")
    return worse


def fell(now: float, before: Sequence[float], more_is_better: bool) -> bool:
    """Tell whether a figure is worse than the recorded ones by more than their noise."""
    low = min(before)
    high = max(before)
    mean = sum(before) / len(before)
    noise = max(high - low, MIN_CHANGE * abs(mean))
    return now < low - noise if more_is_better else now > high + noise


def figure_key(benchmark: Benchmark, figure: Figure) -> str:
    return f"{benchmark.script}: {figure.name}"


def read_record() -> dict[str, list[float]]:
    if not RECORD.exists():
        return {}
    return json.loads(RECORD.read_text(encoding="utf-8"))["figures"]


def write_record(figures: Mapping[str, Sequence[float]]) -> None:
    content = {"date": date.today().isoformat(), "figures": figures}
    RECORD.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [benchmark.script for benchmark in BENCHMARKS]
    parser.add_argument("--only", type=_names, help=f"some of {','.join(names)}")
    parser.add_argument("--record", action="store_true", help="run each three times and record")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(names):
        parser.error(f"--only: no such benchmark: {', '.join(sorted(unknown))}")
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def _at(report: Mapping[str, Any], path: Sequence[str | int]) -> float:
    value: Any = report
    for key in path:
        value = value[key]
    return float(value)


if __name__ == "__main__":
    raise SystemExit(main())
