"""A real web process on the test's database, and Chromium that visits it.

Errors in the browser's console fail the test.
"""

import http.client
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from apps.accounts.models import User
from apps.runs.models import Run
from apps.streaming.chunks import rollout_key, topic_key
from tests.conftest import PASSWORD, hashed
from tests.keeping import Kept
from tests.ports import kept_port
from tests.seeding import people_of

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
START_S = 180  # for the start of a web process: six on an idle machine
PATIENCE_MS = 60_000  # for the expected state of a page
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


@dataclass
class Visit:
    """A user's browser window, with everything it reported or fetched."""

    page: Page
    site: str
    complaints: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and self.complaints.append(message.text)
            ),
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.fetched.append(request.url))

    def open(self, path: str) -> Page:
        self.page.goto(self.site + path, wait_until="load")
        return self.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def log_in(self, name: str, password: str = PASSWORD) -> None:
        """Log in by keyboard on the login page."""
        self.page.focus("#id_login")
        self.page.keyboard.type(name)
        self.press("Tab")
        self.page.keyboard.type(password)
        self.press("Enter")
        self.page.wait_for_url(lambda url: "/login/" not in url)

    def picture(self, name: str) -> None:
        """Save a screenshot if PICTURES is set to a folder."""
        if folder := os.environ.get("PICTURES"):
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)

    def has_overflow(self) -> bool:
        """Return whether the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.fixture(scope="session")
def site(django_db_setup, django_db_blocker) -> Iterator[str]:
    """Run uvicorn in its own process on the test database; yield its address."""
    with django_db_blocker.unblock():
        url = _url_of(connection.settings_dict)
    keeper, port = kept_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "rftweb.asgi:application",
        "--port",
        str(port),
        "--lifespan",
        "off",
        "--no-access-log",
    ]
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "REDIS_URL": settings.REDIS_URL,
        "RFTWEB_VAR": str(settings.VAR),
        "RFTWEB_DEBUG": "0",
    }
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        _wait_until_served(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)
        keeper.close()


def _url_of(database: dict) -> str:
    """Return the test database's URL, whether it listens on a port or on a socket in a folder."""
    host = database["HOST"] or "127.0.0.1"
    port = database["PORT"] or 5432
    account = (
        f"{database['USER']}:{database['PASSWORD']}@"
        if database["PASSWORD"]
        else f"{database['USER']}@"
    )
    return f"postgresql://{account}{host.replace('/', '%2F')}:{port}/{database['NAME']}"


def _wait_until_served(port: int, process: subprocess.Popen) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        assert process.poll() is None, "the web process ended before it served"
        try:
            attempt = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            attempt.request("GET", "/accounts/login/")
            attempt.getresponse().read()
            return
        except OSError:
            process_gone = _wait_a_tick(process)
            assert not process_gone, "the web process ended before it served"
    raise AssertionError(f"the web process did not serve within {START_S} s")


def _wait_a_tick(process: subprocess.Popen) -> bool:
    try:
        process.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Debian's Chromium, or the one that Playwright installed.

    Playwright keeps an event loop running in the test's thread for as long as it lives: no
    asynchronous test can run beside it, and Django's guard, which takes every query for a mistake,
    is off that long.
    """
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class SharedChromium:
    """One Chromium for all files of this folder, as a start costs more than most tests."""

    def __init__(self) -> None:
        self.current: Browser | None = None
        self._ending = ExitStack()

    def started(self) -> Browser:
        """Return the browser; start one if there is none, or if it has crashed."""
        if self.current is None or not self.current.is_connected():
            self.stop()
            self.current = self._ending.enter_context(launched())
        return self.current

    def stop(self) -> None:
        self.current = None
        self._ending.close()


shared = SharedChromium()


@pytest.fixture
def chromium() -> Browser:
    return shared.started()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop Chromium after the last file of this folder."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        shared.stop()


@pytest.fixture
def contexts() -> list[BrowserContext]:
    """Collect the contexts that the test opens in Chromium."""
    return []


@pytest.fixture
def eventually(contexts: list[BrowserContext]) -> Callable[..., object]:
    """Wait like the general fixture, and let Playwright deliver events of the pages meanwhile.

    It does so only while one of its calls runs: a request that a test notes or answers would
    otherwise never arrive.
    """

    def wait(look: Callable[[], object], seconds: float = 60.0) -> object:
        ends = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < ends, f"still not so after {seconds} s"
            _let_pages_speak(contexts)
        return found

    return wait


def _let_pages_speak(contexts: list[BrowserContext]) -> None:
    """Wait a moment in Playwright, or elsewhere if no page is open; a deadline decides."""
    page = next((page for context in contexts for page in context.pages), None)
    if page:
        page.wait_for_timeout(20)
    else:
        time.sleep(0.02)


@pytest.fixture
def visit(
    transactional_db, site: str, chromium: Browser, contexts: list[BrowserContext]
) -> Iterator[Callable[..., Visit]]:
    """Return `visit(user)`, which opens a window with that user signed in; `visit(None)` opens an
    anonymous one.

    With `scripts=False` the window runs no scripts.
    """

    def begin(
        user: User | None, viewport: dict = DESKTOP, scheme: str = "light", scripts: bool = True
    ) -> Visit:
        context = chromium.new_context(
            viewport=viewport,
            color_scheme=scheme,
            has_touch=viewport == PHONE,
            java_script_enabled=scripts,
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        if user is not None:
            client = Client()
            client.force_login(user)
            context.add_cookies(
                [
                    {
                        "name": settings.SESSION_COOKIE_NAME,
                        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
                        "url": site,
                    }
                ]
            )
        return Visit(context.new_page(), site)

    yield begin
    for context in contexts:
        context.close()
    _wait_until_quiet()


def _wait_until_quiet() -> None:
    """Wait until the web process has answered the last requests of closed pages: emptying the
    tables meanwhile would deadlock with it.
    """
    busy = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
              AND backend_type = 'client backend' AND state <> 'idle'"""
    quiet = 0
    ends = time.monotonic() + 60
    while quiet < 3:
        assert time.monotonic() < ends, "the web process is still busy after its pages were closed"
        with connection.cursor() as cursor:
            cursor.execute(busy)
            quiet = quiet + 1 if cursor.fetchone() == (0,) else 0
        time.sleep(0.05)  # a poll; the deadline decides


@pytest.fixture
def may_log_in(transactional_db) -> Callable[..., None]:
    """Return `may_log_in(user)`, which sets PASSWORD, so that the user can log in by form."""

    def give(user: User) -> None:
        User.objects.filter(pk=user.pk).update(password=hashed())

    return give


@pytest.fixture
def seeded(transactional_db, kept_run: Kept) -> dict:
    """Return a tone run at step 3 and its cast, committed, so that the web process sees it."""
    kept_run.put_back()
    run = Run.objects.get()
    with redis.Redis.from_url(settings.REDIS_URL) as client:  # its ids equal those of the last test
        client.delete(
            topic_key(run.topic_id), *map(rollout_key, run.rollouts.values_list("pk", flat=True))
        )
    return {"run": run, **people_of()}
