"""The network traffic of the rating page: requests and transferred bytes, on the first visit and
with a full cache.
"""

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

from apps.accounts.models import User
from tests.browser.rating import asking
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
REQUESTS = 14  # page, styles and scripts; one is only for the rating form
COLD_BYTES = 150_000
WARM_BYTES = 20_000
ADMINISTRATION_BYTES = 300_000


@dataclass
class Traffic:
    """The addresses that a page requested from the network, and the bytes received, with headers
    and compression.
    """

    page: Page
    asked: list[str] = field(default_factory=list)
    came: int = 0

    def __post_init__(self) -> None:
        wire = self.page.context.new_cdp_session(self.page)
        wire.on("Network.requestWillBeSent", self._asked)
        wire.on("Network.loadingFinished", lambda event: self._came(event["encodedDataLength"]))
        wire.send("Network.enable")

    def _asked(self, event: dict) -> None:
        url = event["request"]["url"]
        # The page that was left releases its items: not a request of the new page.
        if not url.startswith("data:") and not url.endswith("/release/"):
            self.asked.append(url)

    def _came(self, length: float) -> None:
        self.came += int(length)

    def begin(self) -> None:
        self.asked.clear()
        self.came = 0


@pytest.mark.parametrize("form", ["stars", "ranking"])
def test_rating_page_needs_few_requests_and_bytes(visit, transactional_db, form):
    asked = elsewhere(lambda: asking(form))
    window = visit(asked.bob)
    traffic = Traffic(window.page)
    page = window.open("/rate/")
    page.wait_for_selector(f"[data-form={form}]")
    page.wait_for_load_state("networkidle")
    assert 5 < len(traffic.asked) <= REQUESTS, traffic.asked
    assert 10_000 < traffic.came <= COLD_BYTES
    traffic.begin()
    page.reload()
    page.wait_for_selector(f"[data-form={form}]")
    page.wait_for_load_state("networkidle")
    assert len(traffic.asked) <= REQUESTS, traffic.asked
    assert 0 < traffic.came <= WARM_BYTES
    assert window.complaints == []


def test_admin_page_needs_few_bytes_and_shows_its_icons(visit, transactional_db):
    root = User.objects.create(username="root", is_staff=True, is_superuser=True)
    window = visit(root)
    traffic = Traffic(window.page)
    page = window.open("/admin/runs/run/")
    page.wait_for_load_state("networkidle")
    assert 10_000 < traffic.came <= ADMINISTRATION_BYTES, traffic.asked
    widths = page.eval_on_selector_all(
        ".material-symbols-outlined", "all => all.map(one => one.scrollWidth)"
    )
    assert widths and max(widths) < 60, "an icon that the font lacks is shown as its name"
