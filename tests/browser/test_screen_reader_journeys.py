"""Rating a reply and creating a run by screen reader and keyboard: roles, names, live regions."""

import pytest
from django.urls import reverse

from apps.feedback.models import Rating
from apps.runs.models import Run
from tests.browser.listening import Listener
from tests.browser.rating import asking
from tests.keeping import elsewhere

CONTROLS = ("textbox", "spinbutton", "combobox", "checkbox", "radio", "button", "link")
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def _words(text: str) -> str:
    """Return the text without spaces, which the tree places differently."""
    return "".join(text.split())


def test_reply_is_rated_with_a_screen_reader_and_keyboard(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", groups=1, size=2))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    ear = Listener(page)

    told = ear.everything()
    question = next(heard.name for heard in told if heard.role == "heading")
    assert question
    assert question in [heard.name for heard in told if heard.role == "article"]
    texts = "".join(heard.name for heard in told if heard.role == "StaticText")
    for part in (".prompt .prose", ".reply .prose"):  # the prompt and the reply are read
        assert _words(page.locator(part).first.inner_text()) in _words(texts)
    assert "Stars" in [heard.name for heard in told if heard.role == "radiogroup"]
    radios = [heard.name for heard in told if heard.role == "radio"]
    assert len(radios) == 5 and radios[0].startswith("1 star: ")
    status = page.locator("[data-status]")
    assert status.get_attribute("role") == "status"
    assert status.get_attribute("aria-live") == "polite"

    submit = ear.go_to("button", "^Next$")
    assert submit.properties.get("keyshortcuts") == "Enter"
    assert page.locator("[data-act=undo]").get_attribute("aria-keyshortcuts") == "z"
    item = page.locator("[data-item]").get_attribute("data-item")
    page.keyboard.press("Enter")  # nothing is chosen yet
    status.filter(has_text="star").wait_for()
    missing = status.inner_text()
    ear.go_to("radio", "^1 star: ", key="Shift+Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    chosen = ear.focused()
    assert chosen.name.startswith("4 stars: ") and chosen.is_checked
    ear.go_to("button", "^Next$")
    page.keyboard.press("Enter")
    status.filter(has_text="4 stars.").wait_for()
    assert "4 stars." not in missing
    page.wait_for_selector(f"[data-item]:not([data-item='{item}'])")
    assert ear.focused().role != "RootWebArea"  # the focus is on the next item
    eventually(lambda: Rating.objects.filter(rater=asked.bob).count() == 1)
    page.keyboard.press("z")  # undo, as the button's shortcut says
    page.wait_for_selector(f"[data-item='{item}']")
    given = [heard.name for heard in ear.all_of("radio") if heard.is_checked]
    assert given == [chosen.name]
    assert window.complaints == []


def test_run_is_created_with_a_screen_reader_and_keyboard(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    ear = Listener(page)
    told = ear.everything()
    assert next(heard.name for heard in told if heard.role == "heading") == "New run"
    assert [heard for heard in told if heard.role in CONTROLS and not heard.name] == []

    name = ear.go_to("textbox", "^Name$")
    assert "Used in the URL" in name.description
    ear.type_over("by-ear")
    steps = ear.go_to("spinbutton", "^Steps")
    assert steps.description and not steps.is_invalid
    ear.type_over("0")
    verdict = page.get_by_role("status").filter(has_text="Fix 1 problem")
    verdict.wait_for()
    wrong = ear.focused()
    assert wrong.name == steps.name and wrong.is_invalid
    assert "plan 1 step or more" in wrong.description
    ear.type_over("7")
    page.get_by_role("status").filter(has_text="The configuration is valid").wait_for()
    assert not ear.focused().is_invalid
    ear.go_to("button", "^Create run$")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/lab/by-ear/")
    page.get_by_role("status").filter(has_text="Run created").first.wait_for()
    assert Run.objects.get(slug="by-ear").settings.steps == 7
    assert window.complaints == []
