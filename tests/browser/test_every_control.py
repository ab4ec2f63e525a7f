"""Each control of each page is activated once: it has an effect, and no response is an error.

Pages are those of tests/crawling.py, so a new page is included at once. Links are fetched, one
for each route and set of query names; buttons are clicked. A form that is not complete may be
refused, if the page says why. Two controls that send the same form to the same route are one; what
scripts do is tried on each kind of page by itself.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import Resolver404, resolve
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as NotInTime

from tests import profiles
from tests.browser.furnished import STATES, furnish
from tests.crawling import addresses
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PROBE = (Path(__file__).parent / "control_probe.js").read_text()
PARTS = 6  # parts of the pages, one test each, to be distributed over processes
EFFECT_MS = 5_000
OK = "it does something"
REFUSED = 422  # an incomplete form; the page is shown again with the missing fields
REASON = "[role=alert], [aria-invalid=true], .note.error, .field-error"
# Controls that end the session would end the crawl.
NOT_ACTIVATED = re.compile(r"^/(accounts/logout|admin)/")
NOT_PAGES = ("/api/", "/metrics")


@dataclass
class Walk:
    """The controls that were tried, and the faults that were found."""

    page: Page
    site: str
    tried: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    at: str = ""

    def __post_init__(self) -> None:
        self.page.add_init_script(PROBE)
        self.page.on("response", self._heard)
        self.page.on("console", self._complained)
        self.page.on("pageerror", lambda error: self.fault(str(error)))
        self.page.on("dialog", self._answer)
        self.page.on("download", lambda _: self._note())
        self.page.on("filechooser", lambda _: self._note())
        self.noted = 0
        self.refused = False

    def fault(self, words: str) -> None:
        self.faults.append(f"{self.at}: {words}")

    def _complained(self, said) -> None:
        if said.type in ("error", "warning") and f"status of {REFUSED}" not in said.text:
            self.fault(said.text)

    def _heard(self, answer) -> None:
        if answer.status == REFUSED and answer.request.is_navigation_request():
            self.refused = True
        elif answer.status >= 400:
            self.fault(
                f"{answer.request.method} {urlsplit(answer.url).path} answers {answer.status}"
            )

    def _answer(self, dialog) -> None:
        """Decline dialogs about irreversible actions; accept those about leaving the page."""
        self._note()
        dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss()

    def _note(self) -> None:
        self.noted += 1

    def open(self, address: str) -> list[dict]:
        """Return the page's controls, with every collapsible section opened."""
        self.at = address
        self.page.goto(self.site + address, wait_until="load")
        self.page.wait_for_function("() => document.readyState === 'complete'")
        return self.page.evaluate("() => walked.controls()")

    def walk(self, address: str) -> None:
        """Try the controls of the page, then those that appeared since: actions change it."""
        controls = self.open(address)
        self._follow_links(address)
        while new := self._untried(address, controls):
            self.tried.add(key_of(address, new[0]))
            controls = self.press(address, new[0])

    def _untried(self, address: str, controls: list[dict]) -> list[dict]:
        fresh = [one for one in controls if key_of(address, one) not in self.tried]
        return [one for one in fresh if not NOT_ACTIVATED.match(one["action"])]

    def press(self, address: str, control: dict) -> list[dict]:
        """Click the control, and what it opened; return the controls of the reloaded page."""
        name = f"{address} › {control['label'] or control['key']}"
        self.at = name
        self._try(control)
        inside = self._dialog_controls(address)
        controls = self.open(address)
        for one in inside:
            self.at = f"{name} › {one['label'] or one['key']}"
            if self._try(control):
                self._try(one)
            controls = self.open(address)
        return controls

    def _try(self, control: dict) -> bool:
        self.refused = False
        outcome = self._click(control)
        if outcome is not OK:
            self.fault(outcome)
        if self.refused and not self.page.locator(REASON).count():
            self.fault("an incomplete form is refused, and the page does not say why")
        return outcome is OK

    def _dialog_controls(self, address: str) -> list[dict]:
        try:
            found = self.page.evaluate(
                "() => walked.controls(document.querySelector('dialog[open]'))"
            )
        except Exception as error:
            if "context was destroyed" not in str(error):
                raise
            return []  # the click has left the page
        new = self._untried(address, found)
        self.tried |= {key_of(address, one) for one in new}
        return new

    def _click(self, control: dict) -> str:
        """Return OK if the click had an effect, else the fault."""
        before = self.noted
        url = self.page.url
        handle = self.page.evaluate_handle("(key) => walked.find(key)", control["key"]).as_element()
        if handle is None:
            return "it is gone when the page is loaded again"
        handle.scroll_into_view_if_needed(timeout=EFFECT_MS)
        self.page.evaluate("() => walked.reset()")
        try:
            handle.click(timeout=EFFECT_MS)
            self.page.wait_for_function(
                "() => !window.walked || walked.seen > 0", timeout=EFFECT_MS, polling=20
            )
        except NotInTime:
            if self.noted == before and self.page.url == url:
                clicked = self.page.evaluate("() => walked.clicks") > 0
                return "nothing happens" if clicked else "a mouse cannot reach it"
        except Exception as error:
            if "context was destroyed" not in str(error) and "not attached" not in str(error):
                raise
        self.page.wait_for_load_state("load")
        return OK

    def _follow_links(self, address: str) -> None:
        for href in self.page.evaluate("() => walked.links()"):
            split = urlsplit(href)
            if f"{split.scheme}://{split.netloc}" != self.site:
                continue
            target = f"{split.path}?{split.query}"
            if split.fragment and split.path == urlsplit(address).path:
                there = self.page.evaluate("(id) => !!document.getElementById(id)", split.fragment)
                there or self.fault(f"link to #{split.fragment}, which is not on the page")
            key = link_key(split.path, split.query)
            if key in self.links or NOT_ACTIVATED.match(split.path):
                continue
            self.links.add(key)
            answer = self.page.context.request.get(self.site + target)
            answer.status < 400 or self.fault(f"link to {target} answers {answer.status}")


def link_key(path: str, query: str) -> str:
    return f"{route_of(path)}?{','.join(sorted(parse_qs(query, keep_blank_values=True)))}"


def route_of(path: str) -> str:
    try:
        return resolve(path).route
    except Resolver404:
        return path


def key_of(address: str, control: dict) -> str:
    """Identify a form by its target; a script control also by its page, unless in the frame."""
    label = re.sub(r"\d[\d.,]*", "N", control["label"])
    if control["sends"]:
        return f"{route_of(control['action'])} {control['name']} {label}"
    where = "frame" if control["frame"] else route_of(urlsplit(address).path)
    return f"{where} {control['marks']} {label}"


def pages_of(user, run) -> list[str]:
    """Return addresses that show this user a whole page, one for each route and query."""
    rollouts = [
        run.rollouts.filter(state="finished", group__state=state).first().pk
        for state in ("admitted", "waiting")
    ]
    client = Client(raise_request_exception=False)
    client.force_login(user)
    of_states = [f"/runs/lab/{slug}/" for slug in STATES]
    found = {}
    for address in [*addresses(run, rollouts), *of_states]:
        if address.startswith(NOT_PAGES):
            continue
        answer = client.get(address)
        if answer.status_code == 200 and not answer.streaming and b"<html" in answer.content:
            found[address] = link_key(*address.partition("?")[::2])
    return list(found)


TRIED: set[str] = set()
LINKS: set[str] = set()


@pytest.mark.parametrize("part", profiles.nightly_but(range(PARTS), kept=(1, 2, 3)))
def test_every_control_has_an_effect_and_no_response_is_an_error(visit, seeded, part):
    alice = seeded["alice"]
    run = seeded["run"]
    elsewhere(lambda: furnish(run, alice))
    pages = elsewhere(lambda: pages_of(alice, run))
    window = visit(alice)
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    walk = Walk(window.page, window.site, TRIED, LINKS)
    for address in pages[part::PARTS]:
        walk.walk(address)
    assert not walk.faults, "\n" + "\n".join(walk.faults)
