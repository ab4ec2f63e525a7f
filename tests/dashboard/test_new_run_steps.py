"""The page of a new run in its three steps: defaults, names, errors and the summary."""

import pytest
from django.urls import reverse

from apps.dashboard.presets import choose_initial_values, presets
from apps.dashboard.run_form import RunForm, load_run_form, read_run_form
from apps.dashboard.run_names import generated_slug
from apps.runs.algorithms.table import RECOMMENDED, TABLE
from apps.runs.models import Run
from apps.runs.parsing import load_yaml
from tests.dashboard.run_forms import alice_client, first, lab, posted  # noqa: F401  (fixtures)


def test_no_two_fields_under_one_heading_have_the_same_label(lab, seeded):
    said = {
        **choose_initial_values(presets()[0], lab),
        "serve": {},
        "environment": {"name": "maze"},
    }
    form = load_run_form(lab, said, seeded.alice)
    for place in (*form.steps, *form.advanced):
        for part in place.parts:
            labels = [knob.label for knob in part.knobs]
            assert len(labels) == len(set(labels)), (place.title, part.title)


def changed_in(form: RunForm) -> dict[str, str]:
    return {knob.address: knob.usual for knob in form.knobs if knob.is_changed}


def test_values_that_differ_from_their_defaults_are_marked_with_the_default(lab, seeded):
    said = {
        **choose_initial_values(presets()[0], lab),
        "group_size": 8,  # its default
        "algorithm": {"name": "dapo", "loss": {"clip_high": 0.5}},
        "lora": {"rank": 4},
        "alerts": {"starvation": None},
    }
    said.pop("people")
    assert changed_in(load_run_form(lab, said, seeded.alice)) == {
        "algorithm.name": "GRPO",
        "algorithm.loss.clip_high": "0.28",
        "sampling.max_tokens": "64",
        "optimizer.learning_rate": "0.0001",
        "lora": "off",
        "lora.rank": "16",
        "alerts.starvation": "on",
    }


@pytest.mark.parametrize(
    ("address", "section"),
    [
        ("people.deadline_s", {"per_group": 4, "at_deadline": "machine_only"}),
        ("sampling.max_tokens", None),
        ("algorithm.name", None),
        ("algorithm.loss.clip_high", {"name": "grpo", "loss": {}, "aggregation": "token-mean"}),
    ],
)
def test_reset_returns_a_field_to_its_default_and_keeps_the_other_input(
    alice_client, first, address, section
):
    sent = posted(first, steps="77", title="Mine too")
    sent["reset"] = address
    answer = alice_client.post(reverse("run-new"), sent)
    form = answer.context["form"]
    assert address not in changed_in(form) and form.plan.steps == 77
    assert answer.context["title"] == "Mine too"
    said = load_yaml(form.text).get(address.partition(".")[0])
    assert (section or {}).items() <= (said or {}).items() and (section or said is None)
    assert not Run.objects.filter(slug="mine").exists()


def test_reset_of_fields_that_cannot_be_reset_changes_nothing(alice_client, first):
    sent = posted(first)
    sent.setlist("reset", ["", "no.such.field", "slug"])
    assert alice_client.post(reverse("run-new-check"), sent).context["form"].text == first.text


def test_a_name_is_generated_until_somebody_types_one(alice_client, lab, first, seeded):
    page = alice_client.get(reverse("run-new")).context
    assert page["slug"] == page["generated"] == "tone-grpo"
    sent = posted(first, slug="tone-grpo", generated="tone-grpo", algorithm__name="gspo")
    followed = alice_client.post(reverse("run-new-check"), sent).context
    assert followed["slug"] == followed["generated"] == "tone-gspo"
    typed = {**sent.dict(), "slug": "mine"}
    assert alice_client.post(reverse("run-new-check"), typed).context["slug"] == "mine"
    alice_client.post(reverse("run-new"), {**sent.dict(), "act": "create"})
    assert Run.objects.filter(slug="tone-grpo").exists()  # the name that was on the page
    assert alice_client.get(reverse("run-new")).context["slug"] == "tone-grpo-2"


@pytest.mark.parametrize(
    ("values", "slug"),
    [
        ({"taskset": "math-easy", "algorithm": {"name": "dr_grpo"}}, "math-easy-dr_grpo"),
        ({"taskset": "sums", "algorithm": "dapo", "evaluation": {}}, "sums-evaluation"),
        ({"policy": "smol", "algorithm": {"name": "dpo"}}, "smol-dpo"),
        ({"taskset": ["a"], "algorithm": 5}, "run"),
        ({"taskset": "x" * 90, "algorithm": "grpo"}, "x" * 42),
        ({"taskset": "ton\0e/ü", "algorithm": {"name": None}}, "toneu"),
    ],
)
def test_a_generated_name_says_what_is_learned_and_how(lab, values, slug):
    assert generated_slug(lab, values) == slug


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("steps: 200", "steps: many", ("steps", 3, "valid integer")),
        ("steps: 200", "stepz: 200", ("stepz", 3, "did you mean steps?")),
        ("  max_tokens: 48", "  max_tokenz: 48", ("sampling.max_tokenz", 7, "max_tokens?")),
        ("scorer: tone", "scorer: tune", ("rewards.0.scorer", 21, "tune")),
        ("taskset: tone", "taskset: [", ("yaml", 4, "sequence from line 2")),
        ("taskset: tone", "policy: tone", ("yaml", 2, "occurs twice")),
    ],
)
def test_error_reports_its_field_and_line(alice_client, first, old, new, expected):
    sent = posted(first, yaml=first.text.replace(old, new))
    answer = alice_client.post(reverse("run-new-check"), sent)
    address, line, words = expected
    fault = next(one for one in answer.context["form"].faults if one.address == address)
    assert fault.line == line and words in fault.words
    assert f'data-line="{line}"' in answer.content.decode()


def test_invalid_yaml_in_one_field_keeps_the_typed_values_of_all_fields(lab, first, seeded):
    form = read_run_form(lab, posted(first, pipeline="- {", seed="5", steps="many"), seeded.alice)
    values = {knob.address: knob.value for knob in form.knobs}
    assert (values["pipeline"], values["seed"], values["steps"]) == ("- {", 5, "many")
    assert load_yaml(form.text)["steps"] == "many" and "pipeline" in form.problems


def test_non_numeric_input_in_a_number_field_is_shown_as_typed(alice_client, first):
    text = first.text.replace("steps: 200", "steps: many")
    page = alice_client.post(reverse("run-new-check"), posted(first, yaml=text)).content.decode()
    assert '<input type="text" id="knob-steps" name="steps" value="many"' in page


def test_picker_offers_all_algorithms_with_recommended_ones_first(lab, first):
    knob = next(knob for knob in first.knobs if knob.address == "algorithm.name")
    groups = dict(knob.choice_groups)
    assert [name for name, _, _ in groups["Recommended"]] == list(RECOMMENDED)
    assert {name for name, _, _ in knob.choices} == set(TABLE) and knob.kind == "picker"
    assert all(words.endswith(".") and ". " not in words for _, _, words in knob.choices)


def test_summary_bar_describes_the_new_run(alice_client, seeded):
    page = alice_client.get(reverse("run-new"))
    assert page.context["summary"] == (
        "GRPO with tone on tone · 200 steps of 16 × 8 replies · judged by tone, people"
    )
    bar = page.content.decode().partition('id="verdict"')[2]
    assert page.context["summary"] in bar and "no basis for the time" in bar
