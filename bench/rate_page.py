"""Weight of the rating page, and the delay from submitting to painting the next item.

    python bench/rate_page.py [--decisions 60] [--words 120]

Headless Chromium loads the page from one web process on an empty embedded database. Weight is the
bytes on the wire, with headers: cold with an empty cache, warm when the page is opened again. The
delay is measured in the page, from the key event's own time to the frame after the item was
swapped.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SAID = "I am sorry to hear that the parcel is late and will trace it now before noon with its place"
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

START_S = 180  # of a web process: six on an idle machine
GAPS = """() => {
  window.gaps = [];
  let pressed = 0;
  addEventListener("keydown", (event) => {
    if (event.key === "Enter") pressed = event.timeStamp;
  }, { capture: true });
  new MutationObserver(() => {
    if (!pressed || !document.querySelector("[data-item]")) return;
    const began = pressed;
    pressed = 0;
    requestAnimationFrame(() => { const after = new MessageChannel();
      after.port1.onmessage = () => window.gaps.push(performance.now() - began);
      after.port2.postMessage(0); });
  }).observe(document.querySelector("[data-stage]"), { childList: true });
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--decisions", type=int, default=60)
    options.add_argument("--words", type=int, default=120, help="words in each reply")
    arguments = options.parse_args()
    with installation():
        cookie = create_rated_run(arguments)
        with served() as site:
            figures = measure_rate_page(site, cookie, arguments.decisions)
    for name, value in figures.items():
        print(f"{name:>16} {value:>8}")
    print(json.dumps(figures))


def create_rated_run(options: argparse.Namespace) -> dict[str, str]:
    """Create a run whose groups wait for people; return a rater's session cookie."""
    from django.conf import settings
    from django.test import Client

    from tests.browser.rating import asking

    words = SAID.split(" ")
    texts = tuple(
        " ".join(words[(n + k) % len(words)] for k in range(options.words)) for n in range(16)
    )
    run = asking("stars", groups=options.decisions // 4 + 4, texts=texts)
    client = Client()
    client.force_login(run.bob)
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
    }


class served:
    """A running web process; yields its address."""

    def __enter__(self) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [
            "-m",
            "uvicorn",
            "rftweb.asgi:application",
            "--port",
            str(port),
            "--lifespan",
            "off",
            "--no-access-log",
        ]
        self.process = subprocess.Popen(
            [sys.executable, *command, "--log-level", "warning"], cwd=ROOT, env=os.environ.copy()
        )
        site = f"http://127.0.0.1:{port}"
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            try:
                urllib.request.urlopen(f"{site}/accounts/login/", timeout=5).read()
                return site
            except OSError:  # the server is not up yet, or slow
                assert self.process.poll() is None, "the web process ended before it served"
                time.sleep(0.1)
        self.__exit__()
        raise TimeoutError(f"the web process did not serve within {START_S} s")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


def measure_rate_page(site: str, cookie: dict[str, str], decisions: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    executable = next(
        (
            path
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (path := shutil.which(name))
        ),
        None,
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{**cookie, "url": site}])
        page = context.new_page()
        cold_kb, cold_requests = weigh(context, page, lambda: page.goto(f"{site}/rate/"))
        warm_kb, warm_requests = weigh(context, page, lambda: page.goto(f"{site}/rate/"))
        gaps = submit_answers(page, decisions)
        browser.close()
    gaps.sort()
    return {
        "cold_kb": cold_kb,
        "cold_requests": cold_requests,
        "warm_kb": warm_kb,
        "warm_requests": warm_requests,
        "gap_ms_p50": round(statistics.median(gaps), 1),
        "gap_ms_p95": round(gaps[int(0.95 * (len(gaps) - 1))], 1),
        "decisions": len(gaps),
    }


def weigh(context: object, page: object, go: object) -> tuple[float, int]:
    """Return kB on the wire and the number of requests, until the page is idle."""
    session = context.new_cdp_session(page)
    traffic = {"bytes": 0, "cached": set(), "requested": set()}
    session.send("Network.enable")
    session.on(
        "Network.requestWillBeSent", lambda event: traffic["requested"].add(event["requestId"])
    )
    session.on(
        "Network.requestServedFromCache", lambda event: traffic["cached"].add(event["requestId"])
    )
    session.on(
        "Network.responseReceived",
        lambda event: (
            event["response"].get("fromDiskCache") and traffic["cached"].add(event["requestId"])
        ),
    )
    session.on(
        "Network.loadingFinished",
        lambda event: traffic.update(bytes=traffic["bytes"] + event["encodedDataLength"]),
    )
    go()
    page.wait_for_selector("[data-item]")
    page.wait_for_load_state("networkidle")
    session.detach()
    return round(traffic["bytes"] / 1000, 1), len(traffic["requested"] - traffic["cached"])


def submit_answers(page: object, decisions: int) -> list[float]:
    """Submit answers as soon as the page is idle; return ms from key to paint."""
    page.evaluate(GAPS)
    for number in range(decisions):
        page.wait_for_load_state("networkidle")
        page.keyboard.press(str(1 + number % 5))
        page.keyboard.press("Enter")
        while page.evaluate("() => window.gaps.length") <= number:
            page.wait_for_timeout(5)
        page.wait_for_timeout(150)  # a person reads meanwhile; the next item is prefetched
    return page.evaluate("() => window.gaps")


if __name__ == "__main__":
    main()
