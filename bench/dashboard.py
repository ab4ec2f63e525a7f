"""Cost of the dashboard's pages on large tables: server time, and network traffic of an open page.

    python bench/dashboard.py [--runs 200] [--rollouts 1000000] [--points 5000000] [--requests 30]
                              [--minutes 1] [--crowd 10000] [--pages run runs]

A separate embedded PostgreSQL is filled by SQL, from another process. Server time is that of
Django's test client in this process, including templates and compression; also reported is the
processor time of this process and its PostgreSQL backend, which does not depend on the load of the
machine. Queries are counted on small tables as well. The exit code is 1 if a page exceeds its
limit. Bytes are everything between headless Chromium and one web process in both directions, with
headers and sockets, after the page has loaded, while a run commits a step every 2.5 s. The page
counts as interactive when its large chart is drawn from the server's points, with an empty cache.
"""

import argparse
import asyncio
import gc
import json
import math
import multiprocessing
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.dashboard_pages import PAGES, Page  # noqa: E402
from bench.dashboard_stage import (  # noqa: E402
    BIG,
    FIRST,
    Sizes,
    create_small_run,
    crowd,
    fill_tables,
    make_story,
)
from bench.installation import installation  # noqa: E402
from bench.rate_page import served  # noqa: E402

STEP_EVERY_S = 2.5
OPENINGS = 5
PATIENCE_MS = 180_000
P95_MS = 150
KB_A_MINUTE = 60
INTERACTIVE_MS = 1_500
DRAWN = """() => {
  const drawn = () => document.querySelector(".curve.large canvas");
  const look = () => drawn()
    ? (window.interactive = performance.now()) : requestAnimationFrame(look);
  document.addEventListener("DOMContentLoaded", look);
}"""


def parse_arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--rollouts", type=int, default=1_000_000)
    options.add_argument(
        "--points", type=int, default=5_000_000, help=("number of metric rows in all runs")
    )
    options.add_argument("--requests", type=int, default=30, help="requests per page")
    options.add_argument(
        "--crowd",
        type=int,
        default=10_000,
        help="number of runs for a second measurement of the list of runs",
    )
    options.add_argument(
        "--minutes",
        type=float,
        default=1.0,
        help="seconds for which the overview stays open; 0: no browser",
    )
    options.add_argument("--pages", nargs="*", help="names of routes (default: all)")
    return options.parse_args()


def main() -> None:
    options = parse_arguments()
    pages = [page for page in PAGES if not options.pages or page.name in options.pages]
    with installation():
        people = create_small_run()
        few = {page: queries(getattr(people, page.by), page, FIRST) for page in pages}
        began = time.perf_counter()
        run_in_process(fill_tables, Sizes(options.runs, options.rollouts, options.points))
        print(
            f"{options.runs} runs, {options.rollouts:,} rollouts, {options.points:,} points of"
            f" metrics, written in {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        gc.collect()
        gc.freeze()  # as a web process does after loading
        page_rows = [
            measure_requests(getattr(people, page.by), page, options.requests)
            | {"queries_small": few[page]}
            for page in pages
        ]
        print_page_table(page_rows)
        figures = measure_traffic(people.alice, options.minutes) if options.minutes else {}
        if options.crowd:
            run_in_process(crowd, options.crowd)
            crowded = []
            for page in (page for page in pages if page.name == "runs"):
                row = measure_requests(people.alice, page, options.requests)
                title = f"{row['page']}, of {options.crowd:,}"
                crowded.append(row | {"page": title, "queries_small": few[page]})
            print_page_table(crowded)
            page_rows += crowded
    over = [row["page"] for row in page_rows if row["p95_ms"] > P95_MS] + list_exceeded(figures)
    print(json.dumps({"pages": page_rows, **figures, "over": over}))
    raise SystemExit(1 if over else 0)


def list_exceeded(figures: dict[str, float]) -> list[str]:
    """Print the figures that have a limit, and return those above it."""
    limits = {"overview_interactive_ms": INTERACTIVE_MS, "overview_kb_a_minute": KB_A_MINUTE}
    exceeded = []
    for name, limit in limits.items():
        if name not in figures:
            continue
        is_over = figures[name] > limit
        print(f"{name:28}{figures[name]:10} of {limit} at most{'  over' * is_over}")
        if is_over:
            exceeded.append(name)
    return exceeded


def run_in_process(work: Callable, *arguments: object) -> None:
    """Run a function in a separate process, so that its leftovers do not affect this one."""
    child = multiprocessing.get_context("spawn").Process(target=_ready, args=(work, *arguments))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit(f"{work.__name__} ended with {child.exitcode}")


def _ready(work: Callable, *arguments: object) -> None:
    import django

    django.setup()
    work(*arguments)


# -- pages


def make_client(person: object) -> object:
    from django.conf import settings
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]  # the test client's host name
    client = Client(headers={"accept-encoding": "gzip"})
    client.force_login(person)
    return client


def page_address(page: Page, slug: str) -> str:
    from django.urls import reverse

    return reverse(page.name, args=page.of(slug)) + page.query


def fetch_page(client: object, where: str) -> None:
    answer = client.get(where)
    if answer.status_code != 200:
        raise SystemExit(f"{where} answered {answer.status_code}")
    answer.getvalue() if answer.streaming else answer.content


def queries(person: object, page: Page, slug: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = make_client(person)
    where = page_address(page, slug)
    fetch_page(client, where)
    with CaptureQueriesContext(connection) as captured:
        fetch_page(client, where)
    return len(captured)


def measure_requests(person: object, page: Page, times: int) -> dict[str, object]:
    """Return the milliseconds of a request; the first requests fill caches and do not count."""
    client = make_client(person)
    where = page_address(page, page.run)
    spent = []
    for n in range(times + 2):
        if n == 2:
            computed = computing()
        began = time.perf_counter()
        fetch_page(client, where)
        spent.append((time.perf_counter() - began) * 1000)
    spent = sorted(spent[2:])
    computed = computing() - computed
    return {
        "page": page.title,
        "p50_ms": round(statistics.median(spent), 1),
        "p95_ms": round(nearest_rank(spent, 0.95), 1),
        "cpu_ms": round(computed * 1000 / times, 1),
        "queries": queries(person, page, page.run),
    }


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values: for 30 values and 0.95 the 29th."""
    return values[math.ceil(share * len(values)) - 1]


def computing() -> float:
    """Return the processor seconds of this process and its backend."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [backend] = cursor.fetchone()
    ticks = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


# -- traffic of the open overview


def measure_traffic(person: object, minutes: float) -> dict[str, float]:
    """Measure the traffic between Chromium and one web process through a counting relay."""
    from django.conf import settings
    from django.urls import reverse
    from playwright.sync_api import sync_playwright

    cookie = make_client(person).cookies[settings.SESSION_COOKIE_NAME].value
    chromium = next(
        (
            path
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (path := shutil.which(name))
        ),
        None,
    )
    with (
        served() as site,
        relay(urlsplit(site).port) as (port, passed),
        sync_playwright() as playwright,
    ):
        origin = f"http://127.0.0.1:{port}"
        address = origin + reverse("run", args=["lab", BIG])
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )

        def opened() -> object:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": origin}]
            )
            context.add_init_script(f"({DRAWN})()")
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector(".curve.large canvas", timeout=PATIENCE_MS)
            return page

        opened().context.close()  # warm up: templates and connections of the web process
        times = []
        for _ in range(OPENINGS):
            before = sum(passed)
            page = opened()
            times.append(page.evaluate("window.interactive"))
            page.wait_for_load_state("networkidle")
            weight = sum(passed) - before
            page.context.close()
        page = opened()
        page.wait_for_selector(".connection[data-state=live]", timeout=PATIENCE_MS)
        page.wait_for_timeout(3000)
        before = sum(passed)
        steps = commit_steps(page, minutes)
        kb = (sum(passed) - before) / 1000 / minutes
        browser.close()
    return {
        "overview_interactive_ms": round(statistics.median(times)),
        "overview_cold_kb": round(weight / 1000, 1),
        "overview_kb_a_minute": round(kb, 1),
        "steps_a_minute": round(steps / minutes, 1),
    }


def commit_steps(page: object, minutes: float) -> int:
    """Commit steps of the run in a separate thread while the page is open; return how many."""
    commit_times = []
    over = threading.Event()

    def work() -> None:
        from django.db import connection

        story = make_story(BIG)
        while not over.is_set():
            began = time.monotonic()
            story.step()
            commit_times.append(began)
            over.wait(max(0.0, STEP_EVERY_S - (time.monotonic() - began)))
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    page.wait_for_timeout(minutes * 60_000)
    over.set()
    thread.join()
    return len(commit_times)


@contextmanager
def relay(port: int) -> Iterator[tuple[int, list[int]]]:
    """Yield (the relay's port, the bytes of each piece that passed in either direction)."""
    passed: list[int] = []
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    doors: list = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                passed.append(len(piece))
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back), carry(remote, writer))

    async def begin() -> None:
        doors.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        ready.set()

    def run() -> None:
        loop.run_until_complete(begin())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield doors[0].sockets[0].getsockname()[1], passed
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


# -- the report


def print_page_table(pages: list[dict]) -> None:
    print(f"{'page':28}{'p50':>10}{'p95':>10}{'computing':>12}   {'queries':>8}{'small':>7}")
    for row in pages:
        notes = "  over" * (row["p95_ms"] > P95_MS) + "  more" * (
            row["queries"] > row["queries_small"]
        )
        counts = f"{row['queries']:8}{row['queries_small']:7}"
        print(
            f"{row['page']:28}{row['p50_ms']:7.1f} ms{row['p95_ms']:7.1f} ms{row['cpu_ms']:9.1f} ms"
            f"   {counts}{notes}"
        )


if __name__ == "__main__":
    main()
