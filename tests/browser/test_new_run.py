"""A new run's form and its YAML stay in sync while the user types, and the server checks them."""

import pytest
from django.urls import reverse

from apps.runs.models import Run
from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_form_and_yaml_stay_in_sync_until_the_run_is_created(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    page.fill("#knob-optimizer-learning_rate", "0.003")
    page.wait_for_function(
        "() => document.getElementById('yaml').value.includes('learning_rate: 0.003')"
    )
    yaml = page.locator("#yaml")
    yaml.fill(yaml.input_value().replace("steps: 200", "steps: 7"))
    page.wait_for_function("() => document.getElementById('knob-steps').value === '7'")
    page.fill("#knob-group_size", "0")
    page.locator("#error-group_size").filter(has_text="greater than or equal to 1").wait_for()
    assert (
        page.input_value("#knob-group_size") == "0" and page.locator("#verdict .bad").is_visible()
    )
    page.fill("#knob-group_size", "4")
    page.locator("#verdict .good").wait_for()
    page.fill("#slug", "from-the-form")
    page.get_by_role("button", name="Create run").click()
    page.wait_for_url("**/runs/lab/from-the-form/")
    made = Run.objects.get(slug="from-the-form").settings
    assert (made.steps, made.group_size, made.optimizer.learning_rate) == (7, 4, 0.003)
    assert window.complaints == []


def test_enter_in_a_field_creates_no_run(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "by-mistake")
    page.fill("#earlier-run", "lab/tone-7")
    page.press("#earlier-run", "Enter")
    page.locator("#difference table.differs").wait_for()
    assert (
        page.input_value("#slug") == "by-mistake"
        and not Run.objects.filter(slug="by-mistake").exists()
    )


def test_preset_replaces_changed_settings_only_after_confirmation(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "my-own")
    page.fill("#knob-steps", "7")
    page.wait_for_function("() => document.getElementById('yaml').value.includes('steps: 7')")
    card = page.locator(".presets a:not([aria-current])").first
    card.click()
    page.get_by_role("button", name="Keep changes").click()
    assert page.input_value("#knob-steps") == "7" and "preset" not in page.url
    card.click()
    page.get_by_role("link", name="Replace").click()
    page.wait_for_url("**preset=**")
    assert page.input_value("#knob-steps") != "7" and page.input_value("#slug") == "my-own"


def test_preset_is_applied_at_once_if_only_the_name_was_typed(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#slug", "my-own")
    page.wait_for_function("() => document.querySelector('.presets a').href.includes('my-own')")
    page.locator(".presets a:not([aria-current])").first.click()
    page.wait_for_url("**preset=**")
    assert page.input_value("#slug") == "my-own"


def test_leaving_a_page_with_changes_asks_for_confirmation(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.fill("#knob-steps", "7")
    with page.expect_event("dialog") as asked:
        page.evaluate("() => setTimeout(() => location.assign('/'), 0)")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    assert page.input_value("#knob-steps") == "7"


BUTTONS = """() => [...document.querySelectorAll("#new-run button")].map(
    ({ name, value }) => [name, value])"""
ACTS = [["act", act] for act in ("check", "create", "start", "try", "check")]


def redrawn(page, **fields: str) -> None:
    """Type into these fields and wait after each until the server has redrawn the form."""
    for name, value in fields.items():
        with page.expect_response("**/runs/new-check/"):
            page.fill(f"#{name}", value)
        page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping')")


@pytest.mark.parametrize(
    ("button", "state"), [("Create run", "created"), ("Create and start", "running")]
)
def test_each_button_works_after_the_form_was_redrawn(visit, seeded, button, state):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    before = page.evaluate(BUTTONS)
    redrawn(page, slug="drawn", title="Drawn again", **{"earlier-run": "lab/tone-7"})
    assert page.evaluate(BUTTONS) == before
    assert [one for one in before if one[0] == "act"] == ACTS
    assert all(value for _, value in before)
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


def test_field_can_be_reset_to_its_default_and_the_buttons_still_work(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    redrawn(page, slug="back", title="Back")
    field = page.locator("[data-knob='people.deadline_s']")
    with page.expect_response("**/runs/new-check/"):
        field.get_by_role("button").click()
    page.wait_for_function("() => document.getElementById('knob-people-deadline_s').value === '60'")
    assert field.get_by_role("button").count() == 0 and "/runs/new/" in page.url
    assert "deadline_s" not in page.input_value("#yaml")
    assert page.evaluate("document.activeElement.id") == "knob-people-deadline_s"
    redrawn(page, title="Back again")  # the next check resets nothing else
    assert "max_tokens: 48" in page.input_value("#yaml")
    page.get_by_role("button", name="Create and start").click()
    page.wait_for_url("**/runs/lab/back/")
    assert Run.objects.get(slug="back").state in ("running", "starting")
    assert window.complaints == []


def test_search_finds_settings_in_their_groups_and_survives_redraws(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.type("weight decay")
    decay = page.locator("#knob-optimizer-weight_decay")
    decay.wait_for()
    assert not page.locator("#group-alerts").is_visible()
    assert not page.locator("#knob-optimizer-beta1").is_visible()
    redrawn(page, **{"knob-optimizer-weight_decay": "0.1"})
    assert decay.is_visible() and decay.input_value() == "0.1"
    assert not page.locator("#group-alerts").is_visible()
    page.fill("[data-search]", "lora rank")  # its switch is off
    page.locator("[data-search-results]").get_by_role("link").wait_for()
    assert not Run.objects.filter(slug="tone-grpo").exists()
    page.press("[data-search]", "Escape")
    page.locator("#group-alerts").wait_for()
    assert not page.locator("#group-alerts").evaluate("one => one.open")


def test_algorithm_is_found_and_chosen_by_keyboard_only(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    page.focus("#picker-algorithm-name summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("kto")
    page.keyboard.press("Enter")  # it searches, and submits nothing
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.getElementById('yaml').value.includes('name: kto')")
    page.locator("#picker-algorithm-name summary").get_by_text("KTO").wait_for()
    assert page.input_value("#slug") == "tone-kto"
    assert page.locator("#picker-algorithm-name").evaluate("one => one.open")


CODE = "() => document.querySelector('.code-sheet pre').textContent.trimEnd()"


def test_yaml_editor_shows_line_numbers_and_errors_at_their_lines(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-new"))
    yaml = page.locator("#yaml")
    text = "# <b>bold</b>\n" + yaml.input_value().replace("steps: 200", "stepz: 200")
    yaml.fill(text)
    page.locator("#yaml-wrong [data-line='4']").wait_for()
    assert page.locator(".gutter span").count() == len(text.split("\n"))
    assert page.locator(".gutter [data-field-error]").all_inner_texts() == ["4"]
    assert page.evaluate(CODE) == text.rstrip() and page.locator("pre b").count() == 0
    page.locator("#yaml-wrong [data-line='4']").get_by_role("link").click()
    assert yaml.evaluate("one => one.selectionStart") == text.index("stepz")
    assert window.complaints == []


def test_yaml_editor_completes_keys_and_values(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-new"))
    yaml = page.locator("#yaml")
    yaml.fill("policy: tone\nsampling:\n")
    yaml.press("Control+End")
    page.keyboard.type("  max")
    page.locator("#completions").get_by_role("option").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    page.keyboard.type("engine: tran")
    page.keyboard.press("Enter")
    expected = "policy: tone\nsampling:\n  max_tokens: 9\nengine: transformers"
    assert yaml.input_value() == expected
    page.keyboard.press("Control+z")
    assert yaml.input_value() != expected  # as if it had been typed


@pytest.mark.parametrize("place", ["h1", "#group-reward-hacking"])
def test_create_buttons_stay_visible_on_a_phone(visit, seeded, place):
    window = visit(seeded["alice"], PHONE)
    page = window.open(reverse("run-new"))
    page.locator(place).scroll_into_view_if_needed()
    box = page.get_by_role("button", name="Create run").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= PHONE["height"]
    assert page.locator(".create-bar").bounding_box()["height"] <= PHONE["height"] / 10
    assert not window.has_overflow()


def test_run_is_created_without_scripts(visit, seeded):
    page = visit(seeded["alice"], scripts=False).open(reverse("run-new"))
    page.fill("#knob-steps", "7")
    page.locator("[data-knob='people.deadline_s']").get_by_role("button").click()
    assert page.input_value("#knob-people-deadline_s") == "60"
    assert page.input_value("#knob-steps") == "7"
    page.get_by_role("button", name="Create run").click()
    page.wait_for_url("**/runs/lab/tone-grpo/")
    made = Run.objects.get(slug="tone-grpo").settings
    assert (made.steps, made.people.deadline_s) == (7, 60.0)
