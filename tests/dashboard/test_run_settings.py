"""The settings of a run: settings that can be changed are fields, changes are previewed first, and
each change can be reverted.
"""

import html
import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.runs.models import Run


@pytest.fixture
def page(run, client, alice) -> str:
    client.force_login(alice)
    return reverse("run-settings", args=[run.project.slug, run.slug])


def hidden(answer, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.content.decode())
    assert found, f"no {name} in the page"
    return found[1]


def asked(client: Client, page: str, **fields: str):
    """Submit the current form with these fields changed and return the response."""
    return client.post(
        page,
        {
            "seen": hidden(client.get(page), "seen"),
            **{k.replace("__", "."): v for k, v in fields.items()},
        },
    )


def applied(client: Client, page: str, **fields: str):
    shown = asked(client, page, **fields)
    told = {
        "seen": hidden(shown, "seen"),
        "apply": hidden(shown, "apply"),
        "reason": "it learns too slowly",
    }
    return client.post(page, {**told, **{k.replace("__", "."): v for k, v in fields.items()}})


def test_changes_are_previewed_before_anything_is_written(client, page, run):
    before = run.config
    shown = asked(client, page, optimizer__learning_rate="0.003", people__deadline_s="50")
    text = html.unescape(shown.content.decode())
    assert shown.status_code == 200 and "Apply 2 changes" in text
    assert "optimizer.learning_rate" in text and "0.003" in text
    run.refresh_from_db()
    assert run.config == before and not run.topic.events.filter(kind="config_changed").exists()


def test_applied_change_updates_the_configuration_the_event_and_the_audit_log(
    client, page, run, alice
):
    assert applied(client, page, optimizer__learning_rate="0.003").status_code == 302
    run.refresh_from_db()
    assert run.settings.optimizer.learning_rate == 0.003
    event = run.topic.events.get(kind="config_changed")
    assert (event.payload["by"], event.payload["reason"]) == ("alice", "it learns too slowly")
    entry = AuditEntry.objects.get(action="run configuration changed")
    assert (entry.by, entry.details["reason"]) == (alice, "it learns too slowly")


def test_form_that_differs_from_its_preview_is_not_applied(client, page, run):
    shown = asked(client, page, optimizer__learning_rate="0.003")
    told = {
        "seen": hidden(shown, "seen"),
        "apply": hidden(shown, "apply"),
        "optimizer.learning_rate": "0.5",
    }
    assert "0.5" in client.post(page, told).content.decode()
    run.refresh_from_db()
    assert run.settings.optimizer.learning_rate != 0.5


def test_change_by_another_person_after_the_preview_is_rejected_with_409(client, page, run):
    shown = asked(client, page, optimizer__learning_rate="0.003")
    run.change_config(None, group_attempts=2)
    told = {
        "seen": hidden(shown, "seen"),
        "apply": hidden(shown, "apply"),
        "optimizer.learning_rate": "0.003",
    }
    assert client.post(page, told).status_code == 409
    run.refresh_from_db()
    assert run.settings.optimizer.learning_rate != 0.003


@pytest.mark.parametrize(
    ("field", "said", "words"),
    [
        ("optimizer.learning_rate", "much", "valid number"),
        ("optimizer.learning_rate", "7", "less than or equal to 1"),
        ("rewards.0.trust", "{", "not valid YAML"),
        ("rewards.0.trust", "precision: 1", "is not a known field"),
        ("people.deadline_s", "-1", "greater than"),
    ],
)
def test_invalid_input_is_reported_at_its_field(client, page, run, field, said, words):
    answer = asked(client, page, **{field.replace(".", "__"): said})
    text = html.unescape(answer.content.decode())
    place = text.index(f'id="error-{field.replace(".", "-")}"')
    assert answer.status_code == 422 and words in text[place : place + 300], text[
        place : place + 300
    ]


def test_scorer_weight_has_its_own_field(client, page, run):
    applied(client, page, rewards__0__weight="0.25")
    run.refresh_from_db()
    assert [choice.weight for choice in run.settings.rewards] == [0.25]


def test_change_can_be_reverted_and_later_changes_of_other_fields_stay(client, page, run):
    was = run.settings.optimizer.learning_rate
    run.change_config(None, optimizer={"learning_rate": 0.01})
    first = run.topic.events.get(kind="config_changed")
    run.change_config(None, max_staleness=3, retention={"days": 3})
    offered = client.get(page, {"put-back": first.pk})
    apply = {
        "seen": hidden(offered, "seen"),
        "apply": hidden(offered, "apply"),
        "optimizer.learning_rate": f"{was:.10g}",
    }
    assert client.post(page, apply).status_code == 302
    run.refresh_from_db()
    assert (
        run.settings.optimizer.learning_rate,
        run.settings.max_staleness,
        run.settings.retention.days,
    ) == (was, 3, 3)


def test_reverting_an_unknown_change_returns_404(client, page):
    assert client.get(page, {"put-back": "999999"}).status_code == 404
    assert client.get(page, {"put-back": "x"}).status_code == 404


def test_fixed_setting_is_shown_with_the_reason(client, page):
    text = html.unescape(client.get(page).content.decode())
    assert 'name="group_size"' not in text
    assert "all groups of a run must have the same size" in text


def test_settings_of_an_ended_run_cannot_be_changed(client, page, run):
    run.stop()
    text = client.get(page).content.decode()
    assert "Review changes" not in text and 'name="optimizer.learning_rate"' not in text
    assert asked_of_ended(client, page).status_code == 302  # no change: all fields are ignored
    assert Run.objects.get().settings.optimizer.learning_rate != 0.003


def asked_of_ended(client: Client, page: str):
    return client.post(page, {"seen": "x", "optimizer.learning_rate": "0.003"})


def test_raters_can_read_settings_without_gold_settings(client, page, bob):
    client.force_login(bob)
    text = client.get(page).content.decode()
    assert "learning_rate" in text and "Review changes" not in text
    assert "people.gold" not in text


def test_submitting_the_unchanged_form_changes_nothing(client, page, run):
    assert asked(client, page).status_code == 302
    assert not run.topic.events.filter(kind="config_changed").exists()


def test_reverting_a_weight_keeps_a_later_change_of_another_scorer(client, alice, new_run):
    run = new_run(rewards=[{"scorer": "sort", "weight": 1.0}, {"scorer": "length", "weight": 0.1}])

    def weights(**given):
        return [
            choice.model_dump(mode="json") | {"weight": given[choice.scorer]}
            for choice in run.settings.rewards
        ]

    run.change_config(alice, rewards=weights(sort=2.0, length=0.1))
    first = run.topic.events.filter(kind="config_changed").latest("sequence")
    run.change_config(alice, rewards=weights(sort=2.0, length=0.5))
    client.force_login(alice)
    offered = client.get(
        reverse("run-settings", args=["lab", run.slug]), {"put-back": first.pk}
    ).context["form"]
    assert [(one.address, one.before, one.after) for one in offered.differences] == [
        ("rewards.sort.weight", "2.0", "1.0")
    ]
