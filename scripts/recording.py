"""Record half a minute of a running demo as a GIF: the live page, a rating, the run, a chat.

`python scripts/recording.py --user NAME --run PROJECT/SLUG` asks for the password (or reads
RFTWEB_PASSWORD), logs in at --site and writes --out. Start `manage.py demo` first, and record while
its run trains. The GIF stays below 3 MB: few colors, and only what changes from frame to frame.
"""

import argparse
import getpass
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from screenshots import CHROMIUM, log_in

VIEW = {"width": 1120, "height": 700}
SIZE = (960, 600)  # of the GIF
COLORS = 160
FRAMES_PER_SECOND = 3
PATIENCE_MS = 60_000
MAX_BYTES = 3_000_000
Scene = tuple[float, Callable[[Page], None]]


class Recorder:
    """Takes frames of a page; each is shown for as long as it was until the next one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []

    def watch(self, seconds: float) -> None:
        """Take frames for so many seconds of the recording."""
        for _ in range(round(seconds * FRAMES_PER_SECOND)):
            began = time.monotonic()
            shot = Image.open(io.BytesIO(self.page.screenshot()))
            self.frames.append(shot.convert("RGB").resize(SIZE, Image.Resampling.LANCZOS))
            remaining_s = 1 / FRAMES_PER_SECOND - (time.monotonic() - began)
            self.page.wait_for_timeout(max(0, remaining_s * 1000))

    def write(self, path: Path) -> None:
        """Write the GIF, with one palette for all frames."""
        samples = [self.frames[n] for n in range(0, len(self.frames), 8)]
        sheet = Image.new("RGB", (SIZE[0], SIZE[1] * len(samples)))
        for place, frame in enumerate(samples):
            sheet.paste(frame, (0, SIZE[1] * place))
        palette = sheet.quantize(COLORS, Image.Quantize.FASTOCTREE)
        quantized = [
            frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames
        ]
        quantized[0].save(
            path,
            save_all=True,
            append_images=quantized[1:],
            duration=round(1000 / FRAMES_PER_SECOND),
            loop=0,
            optimize=True,
        )


def scenes(site: str, run: str) -> Iterator[Scene]:
    """Yield what is done, and for how many seconds it is then watched."""
    yield 2, lambda page: page.goto(f"{site}/")
    yield 4, lambda page: _open(page, f"{site}/live/", "[data-stars]")
    for digit in "5435":
        yield 1, lambda page, key=digit: _rate(page, key)
    yield 1, lambda page: _open(page, f"{site}/rate/", "[data-item]")
    for digit in "5354":
        yield 0.7, lambda page, key=digit: page.keyboard.press(key)
        yield 0.7, lambda page: page.keyboard.press("Enter")
    yield 6, lambda page: page.goto(f"{site}/runs/{run}/")
    yield 2, lambda page: page.mouse.wheel(0, 420)
    yield 3, lambda page: page.goto(f"{site}/runs/{run}/rollouts/")
    yield 3, lambda page: page.goto(f"{site}/runs/{run}/weights/")


def _rate(page: Page, key: str) -> None:
    """Give stars to the first reply of the live page that has none."""
    form = page.locator("[data-stars][data-star-count='']:visible").first
    if form.count():
        form.locator(f"button[value='{key}']").click()


def _open(page: Page, address: str, selector: str) -> None:
    """Open a page, and wait until it shows what the scene is about."""
    page.goto(address)
    page.locator(selector).first.wait_for(timeout=PATIENCE_MS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", default="http://127.0.0.1:8000")
    parser.add_argument("--user", default="demo")
    parser.add_argument("--run", default="demo/tone", help="project/slug of the run to show")
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots/demo.gif"))
    choices = parser.parse_args()
    password = os.environ.get("RFTWEB_PASSWORD") or getpass.getpass()
    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=VIEW)
        log_in(page, choices.site, choices.user, password)
        recorder = Recorder(page)
        for seconds, act in scenes(choices.site, choices.run):
            act(page)
            recorder.watch(seconds)
        browser.close()
    recorder.write(choices.out)
    size = choices.out.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{choices.out} has {size:,} bytes, more than {MAX_BYTES:,}")
    print(f"{choices.out}: {len(recorder.frames)} frames, {size:,} bytes")


if __name__ == "__main__":
    main()
