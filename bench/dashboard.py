"""What the run desk's pages cost the server, and what an open overview costs the network, over large tables.

    python bench/dashboard.py [--runs 200] [--rollouts 1000000] [--points 5000000] [--asked 30] [--minutes 1] [--crowd 10000]
                              [--pages run runs]

An own embedded PostgreSQL is filled by SQL, from another process. Server time is that of Django's test client in this process,
templates and compression included; beside it what this process and its PostgreSQL backend computed, which is the same on a
machine that does other things as well. Queries are counted where the tables are small, too. Ends with 1 where a page, or the
overview, takes more than it may. Bytes are all that pass between
headless Chromium and one web process, headers and sockets and both directions, once the page stands, while a run commits a step
every 2.5 s; interactive is when its large chart is drawn from the server's points, with an empty cache.
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
from bench.dashboard_stage import BIG, FIRST, Sizes, crowd, fill, seed, story_of  # noqa: E402
from bench.installation import installation  # noqa: E402
from bench.rate_page import served  # noqa: E402

STEP_EVERY_S, OPENINGS, PATIENCE_MS = 2.5, 5, 180_000
P95_MS, KB_A_MINUTE, INTERACTIVE_MS = 150, 60, 1_500
DRAWN = """() => {
  const drawn = () => document.querySelector(".curve.large canvas");
  const look = () => drawn() ? (window.interactive = performance.now()) : requestAnimationFrame(look);
  document.addEventListener("DOMContentLoaded", look);
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--rollouts", type=int, default=1_000_000)
    options.add_argument("--points", type=int, default=5_000_000, help="of metrics, in all runs")
    options.add_argument("--asked", type=int, default=30, help="requests of each page")
    options.add_argument("--crowd", type=int, default=10_000, help="runs that the list of runs is measured with once more")
    options.add_argument("--minutes", type=float, default=1.0, help="how long the overview stands open; 0: no browser")
    options.add_argument("--pages", nargs="*", help="names of addresses; all of them otherwise")
    asked = options.parse_args()
    pages = [page for page in PAGES if not asked.pages or page.name in asked.pages]
    with installation():
        people = seed()
        few = {page: queries(getattr(people, page.by), page, FIRST) for page in pages}
        began = time.perf_counter()
        apart(fill, Sizes(asked.runs, asked.rollouts, asked.points))
        sizes = f"{asked.runs} runs, {asked.rollouts:,} rollouts, {asked.points:,} points of metrics"
        print(f"{sizes}, written in {time.perf_counter() - began:.0f} s", flush=True)
        gc.collect()
        gc.freeze()  # as a web process does once it is loaded
        found = [measured(getattr(people, page.by), page, asked.asked) | {"queries_small": few[page]} for page in pages]
        report(found)
        figures = watched(people.alice, asked.minutes) if asked.minutes else {}
        if asked.crowd:
            apart(crowd, asked.crowd)
            lists = [page for page in pages if page.name == "runs"]
            crowded = [measured(people.alice, page, asked.asked) | {"queries_small": few[page]} for page in lists]
            crowded = [row | {"page": f"{row['page']}, of {asked.crowd:,}"} for row in crowded]
            report(crowded)
            found += crowded
    over = [row["page"] for row in found if row["p95_ms"] > P95_MS]
    for name, most in (("overview_interactive_ms", INTERACTIVE_MS), ("overview_kb_a_minute", KB_A_MINUTE)):
        if name in figures:
            is_over = figures[name] > most
            print(f"{name:28}{figures[name]:10} of {most} at most{'  over' * is_over}")
            over += [name] * is_over
    print(json.dumps({"pages": found, **figures, "over": over}))
    raise SystemExit(1 if over else 0)


def apart(work: Callable, *given: object) -> None:
    """Done in a process of its own: what it leaves behind, here and in its backend, no web process has."""
    child = multiprocessing.get_context("spawn").Process(target=_ready, args=(work, *given))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit(f"{work.__name__} ended with {child.exitcode}")


def _ready(work: Callable, *given: object) -> None:
    import django

    django.setup()
    work(*given)


# -- pages -------------------------------------------------------------------------------------------------------------


def client_of(person: object) -> object:
    from django.conf import settings
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]  # the test client's own name
    client = Client(headers={"accept-encoding": "gzip"})
    client.force_login(person)
    return client


def address(page: Page, slug: str) -> str:
    from django.urls import reverse

    return reverse(page.name, args=page.of(slug)) + page.query


def fetch(client: object, where: str) -> None:
    answer = client.get(where)
    if answer.status_code != 200:
        raise SystemExit(f"{where} answered {answer.status_code}")
    answer.getvalue() if answer.streaming else answer.content


def queries(person: object, page: Page, slug: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client, where = client_of(person), address(page, slug)
    fetch(client, where)
    with CaptureQueriesContext(connection) as captured:
        fetch(client, where)
    return len(captured)


def measured(person: object, page: Page, times: int) -> dict[str, object]:
    """Milliseconds of a request, the first of which are not counted: they fill caches."""
    client, where, spent = client_of(person), address(page, page.run), []
    for n in range(times + 2):
        if n == 2:
            computed = computing()
        began = time.perf_counter()
        fetch(client, where)
        spent.append((time.perf_counter() - began) * 1000)
    spent, computed = sorted(spent[2:]), computing() - computed
    return {
        "page": page.title, "p50_ms": round(statistics.median(spent), 1), "p95_ms": round(nearest_rank(spent, 0.95), 1),
        "cpu_ms": round(computed * 1000 / times, 1), "queries": queries(person, page, page.run),
    }  # fmt: skip


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Of sorted values the least that this share of them does not exceed: of 30 and 0.95 the 29th."""
    return values[math.ceil(share * len(values)) - 1]


def computing() -> float:
    """Seconds that this process and its backend have computed."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [backend] = cursor.fetchone()
    ticks = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


# -- the open overview ---------------------------------------------------------------------------------------------------


def watched(person: object, minutes: float) -> dict[str, float]:
    """Chromium before one web process, through a relay that counts."""
    from django.conf import settings
    from django.urls import reverse
    from playwright.sync_api import sync_playwright

    cookie = client_of(person).cookies[settings.SESSION_COOKIE_NAME].value
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    with served() as site, relay(urlsplit(site).port) as (port, passed), sync_playwright() as playwright:
        here = f"http://127.0.0.1:{port}"
        where = here + reverse("run", args=["lab", BIG])
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])

        def opened() -> object:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": here}])
            context.add_init_script(f"({DRAWN})()")
            page = context.new_page()
            page.goto(where)
            page.wait_for_selector(".curve.large canvas", timeout=PATIENCE_MS)
            return page

        opened().context.close()  # the web process has its templates and its connections
        times = []
        for _ in range(OPENINGS):
            before, page = sum(passed), opened()
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
        "overview_interactive_ms": round(statistics.median(times)), "overview_cold_kb": round(weight / 1000, 1),
        "overview_kb_a_minute": round(kb, 1), "steps_a_minute": round(steps / minutes, 1),
    }  # fmt: skip


def commit_steps(page: object, minutes: float) -> int:
    """Steps of the run in a thread of their own, while the page stands open; how many."""
    done, over = [], threading.Event()

    def work() -> None:
        from django.db import connection

        story = story_of(BIG)
        while not over.is_set():
            began = time.monotonic()
            story.step()
            done.append(began)
            over.wait(max(0.0, STEP_EVERY_S - (time.monotonic() - began)))
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    page.wait_for_timeout(minutes * 60_000)
    over.set()
    thread.join()
    return len(done)


@contextmanager
def relay(port: int) -> Iterator[tuple[int, list[int]]]:
    """A door before that port: (the door's port, the bytes of each piece that passed through it, in either direction)."""
    passed: list[int] = []
    loop, ready = asyncio.new_event_loop(), threading.Event()
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
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back), carry(there, writer))

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


# -- what is said --------------------------------------------------------------------------------------------------------


def report(pages: list[dict]) -> None:
    print(f"{'page':28}{'p50':>10}{'p95':>10}{'computing':>12}   {'queries':>8}{'small':>7}")
    for row in pages:
        notes = "  over" * (row["p95_ms"] > P95_MS) + "  more" * (row["queries"] > row["queries_small"])
        counts = f"{row['queries']:8}{row['queries_small']:7}"
        print(f"{row['page']:28}{row['p50_ms']:7.1f} ms{row['p95_ms']:7.1f} ms{row['cpu_ms']:9.1f} ms   {counts}{notes}")


if __name__ == "__main__":
    main()
