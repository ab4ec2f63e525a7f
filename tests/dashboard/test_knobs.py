"""A section of a configuration as the fields of a form: every field appears exactly once."""

from collections.abc import Iterator

import pytest
from django.http import QueryDict
from pydantic import BaseModel

from apps.dashboard.knobs import defaults, section_knobs, values_in
from apps.dashboard.people_form import GROUPS, LABELS, placed
from apps.runs.people import People

KNOBS = {
    knob.address: knob
    for knob in section_knobs(People, People().model_dump(mode="json"), LABELS, {})
}


def leaves(value: dict, prefix: str = "") -> Iterator[str]:
    for name, inner in value.items():
        yield from (
            leaves(inner, f"{prefix}{name}.") if isinstance(inner, dict) else [f"{prefix}{name}"]
        )


def posted(**fields: str) -> QueryDict:
    """Return a browser's post of the section's defaults, with some fields changed; None leaves a
    field out.
    """
    form = QueryDict(mutable=True)
    for knob in KNOBS.values():
        if knob.kind == "switch":
            form.update({knob.address: "on"} if knob.value else {})
        elif knob.kind not in ("names", "rows"):
            form[knob.address] = str(knob.value)
    for address, said in fields.items():
        form.setlist(address.replace("__", "."), said if isinstance(said, list) else [said])
    return form


def test_every_field_of_the_section_is_on_the_page_once():
    plan = People.model_validate(
        {
            "schedule": {"decisions": 50},
            "rater_model": {},
            "form": "rubric",
            "rubric": [{"name": "polite"}],
        }
    )
    fields = set(leaves(plan.model_dump(mode="json")))
    assert fields <= set(KNOBS)
    grouped = [address for _, _, addresses in GROUPS for address in addresses]
    shown = {
        address for address in KNOBS for home in grouped if f"{address}.".startswith(f"{home}.")
    }
    assert shown == set(KNOBS) and len(grouped) == len(set(grouped))


def test_every_field_explains_why_to_change_it():
    assert [address for address, knob in KNOBS.items() if not knob.why] == []


def test_labels_exist_exactly_for_all_fields():
    assert set(LABELS) == set(KNOBS)


def test_limits_equal_those_of_the_schema():
    assert KNOBS["overlap"].bounds == {"min": 1, "max": 20}
    assert KNOBS["weight"].range == "0 to 1"
    assert KNOBS["lease_s"].range == "above 0 to 86,400"
    assert KNOBS["deadline_s"].range == "above 0"
    assert KNOBS["schedule.decisions"].range == "1 to 10,000,000"
    assert KNOBS["lease_s"].unit == "s"


def test_unchanged_form_gives_the_default_configuration():
    assert People.model_validate(values_in(People, posted())) == People()


def test_changed_fields_are_read_and_the_others_keep_their_defaults():
    plan = People.model_validate(
        values_in(People, posted(overlap="3", raters__people=["bob", "eve"], blind=[]))
    )
    assert (plan.overlap, plan.raters.people, plan.blind) == (3, ("bob", "eve"), False)
    assert plan.deadline_s == People().deadline_s


def test_optional_section_exists_if_its_switch_is_on():
    off = People.model_validate(values_in(People, posted(rater_model__min_ratings="9")))
    on = People.model_validate(
        values_in(People, posted(rater_model="on", rater_model__min_ratings="9"))
    )
    assert off.rater_model is None
    assert on.rater_model is not None and on.rater_model.min_ratings == 9


def test_empty_optional_number_is_none():
    assert People.model_validate(values_in(People, posted(lease_s=" "))).lease_s is None


def test_rubric_rows_without_a_name_are_ignored():
    rows = {
        "rubric__0__name": "polite",
        "rubric__0__low": "0",
        "rubric__1__name": "",
        "rubric__1__low": "4",
        "rubric__2__name": "true",
    }
    plan = People.model_validate(values_in(People, posted(form="rubric", **rows)))
    assert [(scale.name, scale.low, scale.high) for scale in plan.rubric] == [
        ("polite", 0, 5),
        ("true", 1, 5),
    ]


def test_browser_line_endings_are_normalized():
    assert values_in(People, posted(guidelines="one\r\ntwo"))["guidelines"] == "one\ntwo"


@pytest.mark.parametrize(
    ("problems", "address"),
    [
        ({"people.overlap": "Input should be less than or equal to 20"}, "overlap"),
        ({"people.rubric.0": "scale polite: low 5 must be below high 5"}, "rubric"),
        ({"people": "`form: rubric` needs at least one scale under `rubric`"}, "form"),
        ({"people": "schedule.rewrites is more than schedule.decisions"}, "schedule.rewrites"),
        ({"people": "two scales of the rubric have the same name"}, ""),
        ({"configuration": "people.per_group is 9, more than group_size 4"}, "per_group"),
        (
            {"configuration": "`people.at_deadline: machine_only` needs a scorer under `rewards`"},
            "at_deadline",
        ),
        ({"configuration": "run tone is completed; create another one"}, ""),
    ],
)
def test_error_is_shown_at_the_nearest_field(problems, address):
    assert list(placed(problems)) == [address]


def test_section_without_defaults_starts_empty():
    class Inner(BaseModel):
        needed: int
        given: int = 3

    assert defaults(Inner) == {"needed": None, "given": 3}
