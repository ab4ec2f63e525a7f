"""A section of a configuration as the fields of a form: nothing is left out, nothing is said
twice.
"""

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
    """A browser's post of the section's defaults, with some fields put differently; None leaves a
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


def test_every_field_of_the_section_has_its_place_on_the_page():
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


def test_every_field_says_why_one_would_turn_it():
    assert [address for address, knob in KNOBS.items() if not knob.why] == []


def test_labels_name_no_field_that_is_not_there():
    assert set(LABELS) == set(KNOBS)


def test_bounds_are_those_of_the_schema():
    assert KNOBS["overlap"].bounds == {"min": 1, "max": 20}
    assert KNOBS["weight"].range == "0 to 1"
    assert KNOBS["lease_s"].range == "above 0 to 86,400"
    assert KNOBS["deadline_s"].range == "above 0"
    assert KNOBS["schedule.decisions"].range == "1 to 10,000,000"
    assert KNOBS["lease_s"].unit == "s"


def test_the_untouched_form_says_what_the_configuration_says():
    assert People.model_validate(values_in(People, posted())) == People()


def test_a_changed_field_is_read_and_the_others_stay():
    plan = People.model_validate(
        values_in(People, posted(overlap="3", raters__people=["bob", "eve"], blind=[]))
    )
    assert (plan.overlap, plan.raters.people, plan.blind) == (3, ("bob", "eve"), False)
    assert plan.deadline_s == People().deadline_s


def test_an_optional_section_is_there_when_its_switch_is_on():
    off = People.model_validate(values_in(People, posted(rater_model__at_least="9")))
    on = People.model_validate(
        values_in(People, posted(rater_model="on", rater_model__at_least="9"))
    )
    assert off.rater_model is None
    assert on.rater_model is not None and on.rater_model.at_least == 9


def test_an_empty_number_that_may_be_empty_is_none():
    assert People.model_validate(values_in(People, posted(lease_s=" "))).lease_s is None


def test_rows_without_a_name_are_no_scales():
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


def test_line_ends_of_a_browser_are_those_of_a_file():
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
def test_what_is_wrong_stands_at_the_field_it_names_first(problems, address):
    assert list(placed(problems)) == [address]


def test_a_section_without_defaults_begins_empty():
    class Inner(BaseModel):
        needed: int
        given: int = 3

    assert defaults(Inner) == {"needed": None, "given": 3}
