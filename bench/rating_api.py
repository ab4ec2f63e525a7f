"""Latency and throughput of rating, from asking for an item to storing its answer.

    python bench/rating_api.py [--sizes 1000,100000,1000000] [--clients 1,8] [--seconds 15]
    [--claims 10000] [--port 8431]

One run has that many waiting items (one reply of about 500 words each, four to a group), with real
web processes and eight accounts with a browser's session each. Every client asks for the next item
and submits stars for it, over and over. The baseline is the bare database: the same tables, claimed
by one UPDATE … SKIP LOCKED and answered by one INSERT in psycopg, nothing else. Clients, web
processes and PostgreSQL share the machine.

The last line on standard output is JSON: `ratings_per_s_1`, `ratings_per_s_8` (at 100,000 items),
`next_p95_ms_100k`, `submit_p95_ms_100k` (one client), the ratios to the baseline, the slope from
the fewest to the most items, and how many items were ever leased twice.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402
from bench.rating_clients import WAIT_S, Timing, together  # noqa: E402
from bench.rating_stage import Stage, furnish, new_run, put_back  # noqa: E402

MEANT = 100_000  # the size of the published figures


def main() -> None:
    options = parse_options()
    with installation(RFTWEB_DEBUG="0"):
        stage = furnish(max(options.clients))
        with web(options.port):
            rows, doubles, claims = measure_rating_api(options, stage, os.environ["DATABASE_URL"])
    print_rating_table(options, rows, doubles, claims)


class web:
    """Web processes as `manage.py up` starts them."""

    def __init__(self, port: int) -> None:
        from rftweb.supervisor.roles import Plan, web_program

        self.port = port
        self.command, _ = web_program(Plan(Path(os.environ["RFTWEB_VAR"]), port=port)).prepare()

    def __enter__(self) -> "web":
        from rftweb.supervisor.roles import answers_http

        self.process = subprocess.Popen(self.command, cwd=ROOT)
        ends = time.monotonic() + WAIT_S
        while not answers_http(self.port):
            if self.process.poll() is not None or time.monotonic() > ends:
                self.__exit__()
                raise SystemExit("the web process did not serve")
            time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.terminate()
        self.process.wait(20)


def measure_rating_api(
    options: argparse.Namespace, stage: Stage, database: str
) -> tuple[list[dict], int, int]:
    """Return figures by size, kind and number of clients; and double leases with all claims."""
    rows = []
    claims = 0
    doubles = 0
    largest = 0
    for size in options.sizes:
        began = time.monotonic()
        run = new_run(stage, size)
        print(f"{size:,} items wait; written in {time.monotonic() - began:.0f} s", flush=True)
        for clients in options.clients:
            for kind, where in (("web", options.port), ("bare", database)):
                at_most = size // (2 * clients)  # so that items wait for every client until the end
                timing = together(
                    kind, where, run, stage.raters[:clients], options.seconds, at_most
                )
                put_back(run)
                rows.append(
                    {"size": size, "clients": clients, "kind": kind, **timing_figures(timing)}
                )
                print(format_row(rows[-1]), flush=True)
                if kind == "web":
                    claims = claims + len(timing.slots)
                    doubles = doubles + len(timing.slots) - len(set(timing.slots))
        largest = run
    if claims < options.claims:
        claims_each = -(-(options.claims - claims) // max(options.clients))
        timing = together(
            "web",
            options.port,
            largest,
            stage.raters[: max(options.clients)],
            WAIT_S * 10,
            claims_each,
        )
        claims = claims + len(timing.slots)
        doubles = doubles + len(timing.slots) - len(set(timing.slots))
    return rows, doubles, claims


def timing_figures(timing: Timing) -> dict[str, float]:
    figures = {"per_s": timing.rate, "decisions": len(timing.slots)}
    for name, seconds in (("next", timing.next_s), ("submit", timing.submit_s)):
        cuts = statistics.quantiles(seconds, n=20)
        figures |= {
            f"{name}_p50_ms": 1000 * statistics.median(seconds),
            f"{name}_p95_ms": 1000 * cuts[18],
        }
    return figures


def format_row(row: dict) -> str:
    times = "  ".join(
        f"{name} {row[f'{name}_p50_ms']:6.1f} / {row[f'{name}_p95_ms']:6.1f} ms"
        for name in ("next", "submit")
    )
    return (
        f"{row['size']:>9,} items  {row['clients']} clients  {row['kind']:4}  {row['per_s']:7.1f}"
        f" ratings/s  {times}"
    )


def print_rating_table(
    options: argparse.Namespace, rows: list[dict], doubles: int, claims: int
) -> None:
    by_case = {(row["size"], row["clients"], row["kind"]): row for row in rows}
    meant = MEANT if MEANT in options.sizes else max(options.sizes)
    few = min(options.sizes)
    largest = max(options.sizes)
    facts: dict[str, object] = {"items": meant}
    for clients in options.clients:
        web_row = by_case[meant, clients, "web"]
        bare_row = by_case[meant, clients, "bare"]
        facts[f"ratings_per_s_{clients}"] = round(web_row["per_s"], 1)
        facts[f"ratings_per_s_{clients}_over_bare"] = round(web_row["per_s"] / bare_row["per_s"], 3)
    usual = by_case[meant, options.clients[0], "web"]
    name = "100k" if meant == MEANT else str(meant)
    facts |= {
        f"next_p95_ms_{name}": round(usual["next_p95_ms"], 1),
        f"submit_p95_ms_{name}": round(usual["submit_p95_ms"], 1),
    }
    facts |= {
        f"{step}_p50_{largest}_over_{few}": round(
            by_case[largest, options.clients[0], "web"][f"{step}_p50_ms"]
            / by_case[few, options.clients[0], "web"][f"{step}_p50_ms"],
            2,
        )
        for step in ("next", "submit")
    }
    print(json.dumps({**facts, "claims": claims, "double_claims": doubles}))


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=[1_000, 100_000, 1_000_000],
        help="numbers of waiting items, in increasing order",
    )
    parser.add_argument("--clients", type=numbers, default=[1, 8])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument(
        "--claims",
        type=int,
        default=10_000,
        help=("total number of claims, which are checked for duplicates"),
    )
    parser.add_argument("--port", type=int, default=8431)
    return parser.parse_args()


if __name__ == "__main__":
    main()
