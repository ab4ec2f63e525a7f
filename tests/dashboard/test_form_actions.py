"""A form's button with an unknown value is refused with 400; it is never a default action."""

import pytest
from django.core.exceptions import BadRequest
from django.test import RequestFactory
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.dashboard.form_actions import posted_action, posted_flag
from apps.runs.models import Run

# (URL name, arguments, the button's field) of every form with more than one button.
RUN = ("lab", "tone-7")
FORMS = (
    ("run-new", (), "act"),
    ("lessons-import", ("lab",), "act"),
    ("runs-act", (), "act"),
    ("rollouts-pick", RUN, "verb"),
    ("run-simulated-rater", RUN, "on"),
    ("run-cost-budget", RUN, "resume"),
    ("run-evaluations", RUN, "versions"),
    ("rating-keys", (), "defaults"),
    ("tour", (), "to"),
)


def post(**fields: str):
    return RequestFactory().post("/", fields)


def test_known_action_is_returned():
    assert posted_action(post(act="start"), ("create", "start")) == "start"


@pytest.mark.parametrize("value", ["undefined", "", "START", "start ", None])
def test_unknown_action_is_refused_with_the_expected_ones(value):
    fields = {} if value is None else {"act": value}
    message = r"The field “act” .* Expected: “create” or “start”"
    with pytest.raises(BadRequest, match=message):
        posted_action(post(**fields), ("create", "start"))


def test_optional_button_accepts_only_its_own_value():
    assert posted_flag(post(), "resume") is False and posted_flag(post(resume="1"), "resume")
    for value in ("undefined", "0", ""):
        with pytest.raises(BadRequest, match="“resume”"):
            posted_flag(post(resume=value), "resume")


@pytest.mark.parametrize(("name", "arguments", "field"), FORMS)
def test_each_form_refuses_an_unknown_button_and_changes_nothing(
    client, seeded, name, arguments, field
):
    client.force_login(seeded.alice)
    address = reverse(name, args=arguments)
    before = (Run.objects.count(), AuditEntry.objects.count())
    answer = client.post(address, {field: "undefined", "slug": "by-mistake"})
    assert answer.status_code == 400
    assert f"“{field}” is “undefined”" in answer.content.decode()
    assert (Run.objects.count(), AuditEntry.objects.count()) == before
