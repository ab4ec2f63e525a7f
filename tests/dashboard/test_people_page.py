"""The page on which a run's owner sets what raters are asked: the form, its validation and the
preview of what a rater would see.
"""

import re
from types import SimpleNamespace

import pytest
from django.http import QueryDict
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.dashboard.people_form import digest_people_section, load_people_form
from apps.feedback.forms import BUILT_IN
from apps.runs.models import Run

FORMS = [name for name in BUILT_IN if name != "flag"]
PAGE = "run-people"
PREVIEW = "run-people-preview"


@pytest.fixture
def seeded(new_run, finish, alice, bob, carol) -> SimpleNamespace:
    """Create an active run with one written group, and its users."""
    run = new_run(group_size=4, people={"per_group": 2, "deadline_s": 1800})
    finish(run, ["12345", "54321"])
    return SimpleNamespace(run=run, alice=alice, bob=bob, carol=carol)


def address(run: Run, name: str = PAGE) -> str:
    return reverse(name, args=[run.project.slug, run.slug])


def filled(run: Run, **changes: object) -> dict:
    """Return the form data that a browser would post from the run's page, with `changes`; None
    removes a field.
    """
    said = QueryDict(mutable=True)
    said["seen"] = digest_people_section(run)
    for knob in load_people_form(run).knobs:
        if knob.kind == "switch" and knob.value:
            said[knob.address] = "on"
        elif knob.kind == "names":
            said.setlist(knob.address, knob.value)
        elif knob.kind == "rows":
            said.update(
                {
                    f"{knob.address}.{n}.{name}": str(value)
                    for n, row in enumerate(knob.value)
                    for name, value in row.items()
                }
            )
        elif knob.kind not in ("switch", "names", "rows"):
            said[knob.address] = str(knob.value)
    for name, value in changes.items():
        said.pop(name.replace("__", "."), None)
        if value is not None:
            said.setlist(
                name.replace("__", "."), value if isinstance(value, list) else [str(value)]
            )
    return dict(said.lists())


def people_of(run: Run) -> dict:
    return Run.objects.get(pk=run.pk).config["people"]


def test_owner_saves_rating_settings_and_the_event_records_who_changed_what(client, seeded):
    client.force_login(seeded.alice)
    answer = client.post(
        address(seeded.run), filled(seeded.run, overlap=2, form="thumbs", guidelines="Be **kind**.")
    )
    assert answer.status_code == 302
    assert (people_of(seeded.run)["overlap"], people_of(seeded.run)["form"]) == (2, "thumbs")
    event = seeded.run.topic.events.filter(kind="config_changed").last()
    assert (
        event.payload["by"],
        event.payload["before"]["people"]["overlap"],
        event.payload["after"]["people"]["overlap"],
    ) == (
        "alice",
        1,
        2,
    )


def test_the_untouched_page_changes_nothing(client, seeded):
    before = people_of(seeded.run)
    client.force_login(seeded.alice)
    assert client.post(address(seeded.run), filled(seeded.run)).status_code == 302
    assert people_of(seeded.run) == before


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"overlap": "21"}, "overlap", "must be less than or equal to 20"),
        ({"overlap": "two"}, "overlap", "must be a valid integer"),
        ({"weight": "nan"}, "weight", "must be"),
        ({"deadline_s": ""}, "deadline_s", "must be a valid number"),
        ({"per_group": "9"}, "per_group", "more than group_size 4"),
        ({"form": "rubric"}, "form", "needs at least one scale"),
        ({"form": "shouting"}, "form", "no rating form"),
        (
            {"raters__people": ["bob", "nobody"]},
            "raters.people",
            "not raters of project lab: nobody",
        ),
        (
            {"raters__groups": ["elsewhere"]},
            "raters.groups",
            "no groups of raters of project lab: elsewhere",
        ),
        ({"at_deadline": "fill_with_rater_model"}, "at_deadline", "needs a rater_model"),
        ({"schedule": "on", "schedule__decisions": "50"}, "schedule", "needs a rater_model"),
        ({"guidelines": "x" * 20_001}, "guidelines", "at most 20000"),
    ],
)
def test_invalid_value_is_reported_at_its_field_and_nothing_changes(
    client, seeded, changes, field, words
):
    before = people_of(seeded.run)
    client.force_login(seeded.alice)
    answer = client.post(address(seeded.run), filled(seeded.run, **changes))
    assert answer.status_code == 422 and people_of(seeded.run) == before
    [wrong] = [knob.wrong for knob in answer.context["form"].knobs if knob.address == field]
    assert words in wrong


def test_form_loaded_before_another_persons_change_is_rejected_until_resent(client, seeded):
    stale = filled(seeded.run, overlap=3)
    seeded.run.change_config(seeded.alice, people={"overlap": 2})
    client.force_login(seeded.alice)
    answer = client.post(address(seeded.run), stale)
    assert answer.status_code == 409 and people_of(seeded.run)["overlap"] == 2
    assert answer.context["form"].values["overlap"] == "3", "the input is kept"
    again = {**stale, "seen": [answer.context["seen"]]}
    assert (
        client.post(address(seeded.run), again).status_code == 302
        and people_of(seeded.run)["overlap"] == 3
    )


def test_rater_sees_guidelines_without_gold_rate_and_cannot_change_settings(client, seeded):
    seeded.run.change_config(
        seeded.alice, people={"guidelines": "Praise <b>nobody</b>.", "gold": {"rate": 0.125}}
    )
    client.force_login(seeded.bob)
    html = client.get(address(seeded.run)).content.decode()
    assert "Praise" in html and "<b>nobody</b>" not in html
    assert not re.search(r"(?<!\d)0\.125", html) and "Attention" not in html, (
        "raters must not see the share of gold items"
    )
    assert client.post(address(seeded.run), filled(seeded.run, overlap=2)).status_code == 403
    assert client.post(address(seeded.run, PREVIEW), filled(seeded.run)).status_code == 403


def test_stranger_gets_404_from_page_and_preview(client, seeded):
    client.force_login(seeded.carol)
    assert client.get(address(seeded.run)).status_code == 404
    assert client.post(address(seeded.run, PREVIEW), {}).status_code == 404


@pytest.mark.parametrize("form", FORMS)
def test_every_rating_form_is_previewed_as_a_rater_would_see_it(client, seeded, form):
    client.force_login(seeded.alice)
    said = filled(
        seeded.run, form=form, rubric__0__name="polite", rubric__0__low="1", rubric__0__high="5"
    )
    answer = client.post(
        address(seeded.run, PREVIEW),
        {name.replace("rubric__0__", "rubric.0."): value for name, value in said.items()},
    )
    assert answer.status_code == 200 and answer.context["form"].problems == {}
    assert f"{form}/item.html" in [template.name for template in answer.templates]
    assert people_of(seeded.run)["form"] == "stars", "a preview changes nothing"


def test_preview_of_a_run_without_rollouts_shows_the_first_task(
    client, project, policy, taskset, plan, alice
):
    run = Run.create(project=project, slug="fresh", title="Fresh", plan=plan())
    client.force_login(alice)
    answer = client.get(address(run))
    assert answer.status_code == 200 and "31425" in answer.content.decode()
    assert "first task" in answer.context["preview"].source


def test_preview_reports_an_invalid_field(client, seeded):
    client.force_login(seeded.alice)
    answer = client.post(address(seeded.run, PREVIEW), filled(seeded.run, overlap="99"))
    html = answer.content.decode()
    assert answer.status_code == 200
    assert 'id="error-overlap"' in html and "less than or equal to 20" in html


def test_setup_of_an_ended_run_is_read_only_and_says_so(client, seeded):
    seeded.run.stop(by=seeded.alice)
    client.force_login(seeded.alice)
    assert "the setup is read-only" in client.get(address(seeded.run)).content.decode()
    assert client.post(address(seeded.run), filled(seeded.run, overlap=2)).status_code == 422
    assert people_of(seeded.run)["overlap"] == 1


def test_accounts_that_may_not_rate_are_not_offered(client, seeded):
    Membership.objects.create(project=seeded.run.project, user=seeded.carol, role="viewer")
    client.force_login(seeded.alice)
    [names] = [
        knob
        for knob in client.get(address(seeded.run)).context["form"].knobs
        if knob.address == "raters.people"
    ]
    offered = [value for value, _, _ in names.choices]
    assert "bob" in offered and "carol" not in offered


def test_raters_beyond_those_listed_are_written_by_name(client, seeded):
    people = User.objects.bulk_create(User(username=f"r-{n:03}") for n in range(250))
    Membership.objects.bulk_create(
        Membership(user=person, project=seeded.run.project, role="rater") for person in people
    )
    client.force_login(seeded.alice)
    page = client.get(address(seeded.run)).content.decode()
    assert "not listed" in page and "r-249" not in page
    form = filled(seeded.run, raters__people=["bob"])
    form["raters.people.unlisted"] = "r-249\r\n\r\n r-248 \r\nbob\r\n"
    assert client.post(address(seeded.run), form).status_code == 302
    assert people_of(seeded.run)["raters"]["people"] == ["bob", "r-249", "r-248"]
    assert 'value="r-249"' in client.get(address(seeded.run)).content.decode()


def test_unknown_name_that_was_written_is_refused_at_its_field(client, seeded):
    client.force_login(seeded.alice)
    form = filled(seeded.run)
    form["raters.groups.unlisted"] = "nobody"
    answer = client.post(address(seeded.run), form)
    assert answer.status_code == 422 and "nobody" in answer.content.decode()
