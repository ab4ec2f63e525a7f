"""Take pictures of a running site's pages: all for a desktop, some for a phone and in dark colors.

`python scripts/screenshots.py --user NAME --run PROJECT/SLUG` asks for the password (or reads
RFTWEB_PASSWORD), logs in at --site and writes PNGs to --out. Chromium is Debian's, or the one
Playwright brought. All pictures together must stay below 3 MB: each has at most 128 colors.
"""

import argparse
import getpass
import io
import os
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
# Pages that are pictured in every size and color scheme; the others only for a desktop, in light.
IN_ALL_LOOKS = ("home", "live", "rate", "run")
COLORS = 128
RUN_PAGES = {
    "evaluations": "evaluations/",
    "run-settings": "settings/",
    "alerts": "alerts/",
    "cost": "cost/",
    "logs": "logs/",
    "audit": "audit/",
    "buffer": "buffer/",
    "weights-compare": "weights/compare/",
    "notes": "labels/",
}
PEOPLE = {
    "people": "",
    "gold": "gold/",
    "quality": "quality/",
    "calibration": "calibration/",
    "adjudicate": "adjudicate/",
    "rater-model": "rater-model/",
    "bought": "bought/",
}
SETTLE_MS = 1500
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def list_page_urls(run: str, beside: str) -> dict[str, str]:
    return {
        "home": "/",
        "live": "/live/",
        "rate": "/rate/",
        "runs": "/runs/",
        "run": f"/runs/{run}/",
        "rollouts": f"/runs/{run}/rollouts/",
        "weights": f"/runs/{run}/weights/",
        "tasksets": "/tasksets/",
        "environments": "/environments/",
        "settings": "/settings/",
        **{name: f"/runs/{run}/people/{path}" for name, path in PEOPLE.items()},
        **{name: f"/runs/{run}/{path}" for name, path in RUN_PAGES.items()},
        "run-new": "/runs/new/",
        "workers": "/workers/",
        "compare": f"/compare/?runs={run},{beside}",
        "docs": "/api/v1/docs/",
        "pipeline": f"/runs/{run}/pipeline/",
        "arenas": "/arenas/",
        "exports": f"/runs/{run}/exports/",
        "trace": f"/runs/{run}/trace/",
    }


def log_in(page: Page, site: str, user: str, password: str) -> None:
    page.goto(f"{site}/accounts/login/")
    page.fill("#id_login", user)
    page.fill("#id_password", password)
    page.click("button.first")
    page.wait_for_url(lambda url: "/login/" not in url)


def take_screenshots(
    browser: Browser, choices: argparse.Namespace, password: str, size: str, scheme: str
) -> None:
    """Take the pages of one size and one color scheme.

    The rollout is the first of the run's list, the followed one is being written.
    """
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    log_in(page, choices.site, choices.user, password)
    in_all_pages = (size, scheme) == ("desktop", "light")
    for name, path in list_page_urls(choices.run, choices.beside).items():
        if not in_all_pages and name not in IN_ALL_LOOKS:
            continue
        page.goto(choices.site + path)
        shoot(page, choices.out, f"{name}-{size}-{scheme}")
        if name == "live" and in_all_pages:
            shoot_followed(page, choices, f"{size}-{scheme}")
        if name == "rollouts" and (first := page.locator("tr.open a").first).count():
            page.goto(choices.site + first.get_attribute("href"))
            shoot(page, choices.out, f"rollout-{size}-{scheme}")
            follow_first(page, choices, {"group": "main a[href*='/groups/']"}, size, scheme)
        if name == "arenas":
            follow_first(page, choices, {"arena": "main td a.plain"}, size, scheme)
            page.goto(choices.site + path)
            follow_first(
                page, choices, {"arena-judge": "main td a.button:not(.plain)"}, size, scheme
            )
        if name == "evaluations":
            follow_first(page, choices, {"evaluation": "main .versions tbody a.cell"}, size, scheme)
        if name == "weights":
            steps = {"version": "main tbody a[href*='/weights/']", "chat": "main a[href$='/chat/']"}
            follow_first(page, choices, steps, size, scheme)
        if name == "environments":
            follow_first(
                page,
                choices,
                {
                    "environment": "main a[href^='/environments/']",
                    "episode": "main a[href^='/episodes/']",
                },
                size,
                scheme,
            )
    context.close()


def follow_first(
    page: Page, choices: argparse.Namespace, steps: dict[str, str], size: str, scheme: str
) -> None:
    """Follow the first link that each step names, page after page; stop if there is none."""
    for name, selector in steps.items():
        link = page.locator(selector).first
        if not link.count():
            return
        page.goto(choices.site + link.get_attribute("href"))
        shoot(page, choices.out, f"{name}-{size}-{scheme}")


def shoot_followed(page: Page, choices: argparse.Namespace, how: str) -> None:
    """Take a followed reply in large, and its editor if the user may edit.

    Do nothing if no reply is being written.
    """
    address = page.evaluate(
        "document.querySelector('.rollout-card.sampling [data-opens-large]')?.getAttribute('href')"
    )
    if address is None:
        return
    page.goto(choices.site + address)
    shoot(page, choices.out, f"follow-{how}")
    if page.locator("[data-act=edit]:visible").count():
        page.keyboard.press("e")
        shoot(page, choices.out, f"editor-{how}")
        page.keyboard.press("Escape")


def shoot(page: Page, folder: Path, name: str) -> None:
    page.wait_for_timeout(SETTLE_MS)  # curves are drawn and the socket has caught up by then
    path = folder / f"{name}.png"
    write_small(Image.open(io.BytesIO(page.screenshot())), path)
    print(path)


def write_small(picture: Image.Image, path: Path) -> None:
    """Write a PNG with few colors: about a third of what the browser writes."""
    few = picture.convert("RGB").quantize(COLORS, Image.Quantize.FASTOCTREE)
    few.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", default="http://127.0.0.1:8000")
    parser.add_argument("--user", default="demo")
    parser.add_argument("--run", default="demo/tone", help="project/slug of the run to show")
    parser.add_argument(
        "--beside", default="demo/sort", help="project/slug of the run it is compared with"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    choices = parser.parse_args()
    password = os.environ.get("RFTWEB_PASSWORD") or getpass.getpass()
    choices.out.mkdir(parents=True, exist_ok=True)
    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        for size in SIZES:
            for scheme in SCHEMES:
                take_screenshots(browser, choices, password, size, scheme)
        browser.close()


if __name__ == "__main__":
    main()
