"""A new run's form and its YAML follow each other while somebody types, and the server judges what stands there."""

import pytest
from django.urls import reverse

from apps.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_form_and_yaml_follow_each_other_until_the_run_is_made(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    page.fill("#knob-optimizer-learning_rate", "0.003")
    page.wait_for_function("() => document.getElementById('yaml').value.includes('learning_rate: 0.003')")
    yaml = page.locator("#yaml")
    yaml.fill(yaml.input_value().replace("steps: 200", "steps: 7"))
    page.wait_for_function("() => document.getElementById('knob-steps').value === '7'")
    page.fill("#knob-group_size", "0")
    page.locator("#wrong-group_size").filter(has_text="greater than or equal to 1").wait_for()
    assert page.input_value("#knob-group_size") == "0" and page.locator("#verdict .bad").is_visible()
    page.fill("#knob-group_size", "4")
    page.locator("#verdict .good").wait_for()
    page.fill("#slug", "from-the-form")
    page.get_by_role("button", name="Make run").click()
    page.wait_for_url("**/runs/lab/from-the-form/")
    made = Run.objects.get(slug="from-the-form").settings
    assert (made.steps, made.group_size, made.optimizer.learning_rate) == (7, 4, 0.003)
    assert window.complaints == []


def test_enter_in_a_field_makes_no_run(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "by-mistake")
    page.fill("#against", "lab/tone-7")
    page.press("#against", "Enter")
    page.locator("#difference table.differs").wait_for()
    assert page.input_value("#slug") == "by-mistake" and not Run.objects.filter(slug="by-mistake").exists()


def test_a_preset_replaces_what_was_typed_only_when_told(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "my-own")
    page.fill("#knob-steps", "7")
    page.wait_for_function("() => document.getElementById('yaml').value.includes('steps: 7')")
    card = page.locator(".presets a:not([aria-current])").first
    card.click()
    page.get_by_role("button", name="Keep what is there").click()
    assert page.input_value("#knob-steps") == "7" and "preset" not in page.url
    card.click()
    page.get_by_role("link", name="Replace it").click()
    page.wait_for_url("**preset=**")
    assert page.input_value("#knob-steps") != "7" and page.input_value("#slug") == "my-own"


def test_a_preset_is_taken_at_once_where_nothing_but_names_was_typed(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "my-own")
    page.wait_for_function("() => document.querySelector('.presets a').href.includes('my-own')")
    page.locator(".presets a:not([aria-current])").first.click()
    page.wait_for_url("**preset=**")
    assert page.input_value("#slug") == "my-own"


def test_a_page_with_something_typed_is_not_left_unasked(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#knob-steps", "7")
    with page.expect_event("dialog") as asked:
        page.evaluate("() => setTimeout(() => location.assign('/'), 0)")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    assert page.input_value("#knob-steps") == "7"


BUTTONS = """() => [...document.querySelectorAll("#new-run button")].map((one) => one.value)"""


def redrawn(page, **fields: str) -> None:
    """Type into these fields and wait until the server has drawn the form again after each."""
    for name, value in fields.items():
        with page.expect_response("**/runs/new-check/"):
            page.fill(f"#{name}", value)
        page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping')")


@pytest.mark.parametrize(
    ("button", "state"), [("Make run", "created"), ("Make and start", "running")]
)
def test_each_button_does_what_it_says_after_the_form_was_drawn_again(visit, seeded, button, state):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    before = page.evaluate(BUTTONS)
    redrawn(page, slug="drawn", title="Drawn again", against="lab/tone-7")
    assert page.evaluate(BUTTONS) == before == ["check", "create", "start", "check"]
    page.locator("#verdict").get_by_role("button", name="Check").click()
    page.wait_for_load_state("load")
    page.press("#title", "Enter")
    page.wait_for_load_state("load")
    assert not Run.objects.filter(slug="drawn").exists()
    redrawn(page, title="Drawn once more")
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_url("**/runs/lab/drawn/")
    assert Run.objects.get(slug="drawn").state in (state, "starting")
    assert window.complaints == []
