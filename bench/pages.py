"""Weight and speed of every page in a browser, cold and warm, and its processor time in the server.

    python bench/pages.py [--runs 6] [--rollouts 8000] [--points 40000] [--requests 5]
                          [--pages home rate]

One web process and headless Chromium on an embedded PostgreSQL that SQL fills; people read pages as
an owner, a rater and an administrator. Cold: an empty cache, by a new browser context. Warm: the
same page opened once more. Per opening: milliseconds to the first byte, kB on the wire with
headers, requests that reached the network, milliseconds to the largest contentful paint, and the
sum of layout shifts. Processor time is that of this process and its database backend per request
of Django's test client, so it does not depend on the load of the machine. The exit code is 1 if a
page exceeds a limit.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext
    from playwright.sync_api import Page as Tab

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.dashboard import (  # noqa: E402
    make_client,
    measure_requests,
    page_address,
    run_in_process,
)
from bench.dashboard_pages import PAGES, Page, no_arguments, project_arguments  # noqa: E402
from bench.dashboard_stage import Sizes, create_small_run, fill_tables  # noqa: E402
from bench.installation import installation  # noqa: E402
from bench.rate_page import served  # noqa: E402

CPU_MS = 150
ADMINISTRATION_KB = 300
SHIFT = 0.1  # above which a page counts as one that moves while it is read
PATIENCE_MS = 120_000
SETTLE_MS = 300  # without a request under way, after which a page counts as there
MAX_OPEN_S = 20.0
LOOK_MS = 50
WINDOW = {"width": 1440, "height": 900}
# What other parts of pages ask for: no pages of their own.
PARTS = ("curves", "pulse", "bars", "drawer")
MORE = (
    Page("home", "home", no_arguments),
    Page("new run", "run-new", no_arguments),
    Page("models", "policies", no_arguments),
    Page("model", "policy", lambda _: ["lab", _policy()]),
    Page("add a model", "model-add", no_arguments),
    Page("test bench", "test-bench", project_arguments),
    Page("projects", "projects", no_arguments),
    Page("project", "project", project_arguments),
    Page("my work", "my-work", no_arguments, by="bob"),
    Page("search", "find", no_arguments),
    Page("help", "help", no_arguments),
    Page("a page of help", "help-page", lambda _: ["people"]),
)
# Measured apart, in the same way on two cores.
LABEL_STUDIO = (
    "beside it, the labelling page of Label Studio 1.23.2: cold 8,070 kB in 35 requests, warm"
    " 184 kB in 33; its list of tasks answers in 283 to 365 ms (median)"
)
OBSERVE = """() => {
  window.painted = 0;
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.painted = entry.startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (!entry.hadRecentInput) window.shifted += entry.value;
    }
  }).observe({ type: "layout-shift", buffered: true });
}"""
FIGURES = """() => {
  const [gone] = performance.getEntriesByType("navigation");
  return [gone.responseStart - gone.requestStart, window.painted, window.shifted];
}"""


@dataclass(frozen=True)
class Opening:
    """What one opening of a page took."""

    first_byte_ms: float
    kb: float
    requests: int
    painted_ms: float
    shift: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=6)
    options.add_argument("--rollouts", type=int, default=8_000)
    options.add_argument("--points", type=int, default=40_000, help="metric rows in all runs")
    options.add_argument(
        "--requests", type=int, default=5, help=("number of requests for measuring CPU time")
    )
    options.add_argument("--pages", nargs="*", help="names of addresses; all of them otherwise")
    arguments = options.parse_args()
    pages = [page for page in list_pages() if not arguments.pages or page.name in arguments.pages]
    with installation():
        people = create_small_run()
        run_in_process(fill_tables, Sizes(arguments.runs, arguments.rollouts, arguments.points))
        print_head()
        rows = []
        with served() as site, chromium() as browser:
            for page in pages:
                rows.append(
                    measure_page(browser, site, page, getattr(people, page.by), arguments.requests)
                )
                print_row(rows[-1])
    print(LABEL_STUDIO)
    over = {row["page"]: words for row in rows if (words := list_excesses(row))}
    print(json.dumps({"pages": rows, "over": over}))
    raise SystemExit(1 if over else 0)


def list_pages() -> list[Page]:
    """Return every page that a person opens, each once in its plainest form."""
    whole = [page for page in PAGES if not page.name.endswith(PARTS) and not page.query]
    by_query = [page for page in PAGES if page.name == "compare"]
    return [*MORE, *whole, *by_query]


def _policy() -> str:
    from apps.policies.models import Policy

    return Policy.objects.order_by("pk").values_list("slug", flat=True)[0]


@contextmanager
def chromium() -> "Iterator[Browser]":
    """Yield headless Chromium: Debian's, or the one Playwright brought."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next((path for name in names if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


def measure_page(
    browser: "Browser", site: str, page: Page, person: object, repeats: int
) -> dict[str, object]:
    """Return the figures of a page, of its cold and its warm opening."""
    from django.conf import settings

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # Playwright keeps a loop in this thread
    client = make_client(person)
    name = settings.SESSION_COOKIE_NAME
    cookie = {"name": name, "value": client.cookies[name].value, "url": site}
    address = site + page_address(page, page.run)
    context = browser.new_context(viewport=WINDOW)
    context.add_cookies([cookie])
    context.add_init_script(f"({OBSERVE})()")
    cold = open_page(context, address)
    warm = open_page(context, address)
    context.close()
    computed = measure_requests(person, page, repeats)
    return {
        "page": page.title,
        "name": page.name,
        "cpu_ms": computed["cpu_ms"],
        "queries": computed["queries"],
        "cold": vars(cold),
        "warm": vars(warm),
    }


class Wire:
    """What a tab fetches: bytes with headers, requests to the network, and those under way."""

    def __init__(self, context: "BrowserContext", page: "Tab") -> None:
        self.bytes = 0.0
        self.requested: set[str] = set()
        self.cached: set[str] = set()
        self.under_way: set[str] = set()
        session = context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._note_request)
        session.on("Network.requestServedFromCache", self._note_cached)
        session.on("Network.responseReceived", self._note_response)
        session.on("Network.loadingFinished", self._note_finished)
        session.on("Network.loadingFailed", self._note_ended)
        session.send("Network.enable")

    @property
    def requests(self) -> int:
        return len(self.requested - self.cached)

    def _note_request(self, event: dict) -> None:
        if event["request"]["url"].startswith("http"):
            self.requested.add(event["requestId"])
            self.under_way.add(event["requestId"])

    def _note_cached(self, event: dict) -> None:
        self.cached.add(event["requestId"])

    def _note_response(self, event: dict) -> None:
        if event["response"].get("fromDiskCache"):
            self._note_cached(event)

    def _note_finished(self, event: dict) -> None:
        self.bytes += event["encodedDataLength"]
        self._note_ended(event)

    def _note_ended(self, event: dict) -> None:
        self.under_way.discard(event["requestId"])


def open_page(context: "BrowserContext", address: str) -> Opening:
    """Open the address in a new tab, until nothing is under way for a moment.

    Pages that ask again and again may never come to rest: those are measured after some seconds.
    """
    page = context.new_page()
    wire = Wire(context, page)
    answer = page.goto(address, timeout=PATIENCE_MS)
    if answer is None or answer.status != 200:
        raise SystemExit(f"{address} answered {answer.status if answer else 'nothing'}")
    ends = time.monotonic() + MAX_OPEN_S
    rested = 0
    while rested < SETTLE_MS and time.monotonic() < ends:
        page.wait_for_timeout(LOOK_MS)
        rested = 0 if wire.under_way else rested + LOOK_MS
    first_byte, painted, shift = page.evaluate(FIGURES)
    page.close()
    return Opening(
        first_byte_ms=round(first_byte, 1),
        kb=round(wire.bytes / 1000, 1),
        requests=wire.requests,
        painted_ms=round(painted),
        shift=round(shift, 3),
    )


def list_excesses(row: dict) -> list[str]:
    """Return in words which limits the page exceeds."""
    words = []
    if row["cpu_ms"] > CPU_MS:
        words.append(f"{row['cpu_ms']} ms of processor time, {CPU_MS} at most")
    if row["name"].startswith("admin") and row["cold"]["kb"] > ADMINISTRATION_KB:
        words.append(f"{row['cold']['kb']} kB cold, {ADMINISTRATION_KB} at most")
    for way in ("cold", "warm"):
        if row[way]["shift"] > SHIFT:
            words.append(f"layout shift {row[way]['shift']} {way}, {SHIFT} at most")
    return words


def print_head() -> None:
    titles = f"{'first byte':>12}{'kB':>8}{'requests':>10}{'LCP':>10}{'shift':>8}"
    print(f"{'page':26}{'computing':>11}  {'':6}{titles}", flush=True)


def print_row(row: dict) -> None:
    notes = "; ".join(list_excesses(row))
    for way in ("cold", "warm"):
        figures = row[way]
        head = f"{row['page']:26}{row['cpu_ms']:8.1f} ms" if way == "cold" else " " * 37
        print(
            f"{head}  {way:6}{figures['first_byte_ms']:9.1f} ms{figures['kb']:8.1f}"
            f"{figures['requests']:10}{figures['painted_ms']:7} ms{figures['shift']:8.3f}"
            f"{'  ' + notes if way == 'cold' and notes else ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
