"""Take pictures of a running site's pages: desktop and phone, light and dark.

`python scripts/screenshots.py --user NAME --run PROJECT/SLUG` asks for the password (or reads RFTWEB_PASSWORD),
logs in at --site and writes PNGs to --out. Chromium is Debian's, or the one Playwright brought.
"""

import argparse
import getpass
import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
DESK = {
    "evaluations": "evaluations/", "run-settings": "settings/", "alerts": "alerts/", "cost": "cost/", "logs": "logs/",
    "audit": "audit/", "buffer": "buffer/", "weights-compare": "weights/compare/", "notes": "labels/",
}  # fmt: skip
PEOPLE = {
    "people": "", "gold": "gold/", "quality": "quality/", "calibration": "calibration/", "adjudicate": "adjudicate/",
    "rater-model": "rater-model/", "bought": "bought/",
}  # fmt: skip
SETTLE_MS = 1500
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def pages(run: str, beside: str) -> dict[str, str]:
    return {
        "live": "/live/", "rate": "/rate/", "runs": "/runs/", "run": f"/runs/{run}/", "rollouts": f"/runs/{run}/rollouts/",
        "weights": f"/runs/{run}/weights/", "tasksets": "/tasksets/", "environments": "/environments/", "settings": "/settings/",
        **{name: f"/runs/{run}/people/{path}" for name, path in PEOPLE.items()},
        **{name: f"/runs/{run}/{path}" for name, path in DESK.items()},
        "run-new": "/runs/new/", "workers": "/workers/", "compare": f"/compare/?runs={run},{beside}",
        "docs": "/api/v1/docs/", "pipeline": f"/runs/{run}/pipeline/",
        "arenas": "/arenas/", "exports": f"/runs/{run}/exports/", "trace": f"/runs/{run}/trace/",
    }  # fmt: skip


def log_in(page: Page, site: str, user: str, password: str) -> None:
    page.goto(f"{site}/accounts/login/")
    page.fill("#id_login", user)
    page.fill("#id_password", password)
    page.click("button.first")
    page.wait_for_url(lambda url: "/login/" not in url)


def take(browser: Browser, choices: argparse.Namespace, password: str, size: str, scheme: str) -> None:
    """All pages in one size and one scheme; the rollout is the first of the run's list, followed is one being written."""
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    log_in(page, choices.site, choices.user, password)
    for name, path in pages(choices.run, choices.beside).items():
        page.goto(choices.site + path)
        shoot(page, choices.out, f"{name}-{size}-{scheme}")
        if name == "live":
            shoot_followed(page, choices, f"{size}-{scheme}")
        if name == "rollouts" and (first := page.locator("tr.open a").first).count():
            page.goto(choices.site + first.get_attribute("href"))
            shoot(page, choices.out, f"rollout-{size}-{scheme}")
            follow_first(page, choices, {"group": "main a[href*='/groups/']"}, size, scheme)
        if name == "arenas":
            follow_first(page, choices, {"arena": "main td a.plain"}, size, scheme)
            page.goto(choices.site + path)
            follow_first(page, choices, {"arena-judge": "main td a.button:not(.plain)"}, size, scheme)
        if name == "evaluations":
            follow_first(page, choices, {"evaluation": "main .versions tbody a.cell"}, size, scheme)
        if name == "weights":
            steps = {"version": "main tbody a[href*='/weights/']", "chat": "main a[href$='/chat/']"}
            follow_first(page, choices, steps, size, scheme)
        if name == "environments":
            follow_first(
                page,
                choices,
                {"environment": "main a[href^='/environments/']", "episode": "main a[href^='/episodes/']"},
                size,
                scheme,
            )
    context.close()


def follow_first(page: Page, choices: argparse.Namespace, steps: dict[str, str], size: str, scheme: str) -> None:
    """From page to page by the first link that each step names; ends where there is none."""
    for name, selector in steps.items():
        link = page.locator(selector).first
        if not link.count():
            return
        page.goto(choices.site + link.get_attribute("href"))
        shoot(page, choices.out, f"{name}-{size}-{scheme}")


def shoot_followed(page: Page, choices: argparse.Namespace, how: str) -> None:
    """A reply followed large, and its editor where the person may edit; nothing when none is being written."""
    address = page.evaluate("document.querySelector('.roll.sampling [data-opens-large]')?.getAttribute('href')")
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
    page.screenshot(path=folder / f"{name}.png")
    print(folder / f"{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", default="http://127.0.0.1:8000")
    parser.add_argument("--user", default="demo")
    parser.add_argument("--run", default="demo/tone", help="project/slug of the run to show")
    parser.add_argument("--beside", default="demo/sort", help="project/slug of the run it is compared with")
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    choices = parser.parse_args()
    password = os.environ.get("RFTWEB_PASSWORD") or getpass.getpass()
    choices.out.mkdir(parents=True, exist_ok=True)
    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        for size in SIZES:
            for scheme in SCHEMES:
                take(browser, choices, password, size, scheme)
        browser.close()


if __name__ == "__main__":
    main()
