"""The pages of alerts: who sees which, acknowledgement, the rules, and the channels."""

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, Membership, User
from apps.alerts.models import Alert, Channel, Delivery
from apps.dashboard.settings_form import digest_settings
from apps.runs.models import Run


def opened(
    run: Run, rule: str = "no_progress", words: str = "No step for 2 h.", key: str = ""
) -> Alert:
    alert = Alert.objects.create(
        run=run, rule=rule, key=key, words=words, todo="Look at its log.", since=timezone.now()
    )
    alert.enter("opened", words)
    return alert


def page(client, name: str, *args: object) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def told(run, cast):
    """Open one alert of each level of secrecy."""
    return [
        opened(run),
        opened(run, "kl", "The policy is 5 nats away."),
        opened(run, "suspected", "Length drifts.", "length"),
    ]


SAID = ["No step for 2 h.", "The policy is 5 nats away.", "Length drifts."]


def heard(text: str) -> list[str]:
    return [words for words in SAID if words in text]


def test_steering_users_see_all_alerts_and_blind_raters_none_about_training(
    client, cast, run, told
):
    viewer = User.objects.create(username="vera")
    Membership.objects.create(project=run.project, user=viewer, role=Membership.Role.VIEWER)
    expected = {cast.alice: SAID, cast.bob: SAID[:1], viewer: SAID[:2], cast.admin: SAID}
    for person, words in expected.items():
        client.force_login(person)
        for address in (
            ("alerts",),
            ("alerts-now",),
            ("run-alerts", "lab", run.slug),
            ("run-alerts-now", "lab", run.slug),
        ):
            assert (person, heard(page(client, *address))) == (person, words)
    client.force_login(cast.carol)
    assert heard(page(client, "alerts")) == []


def test_header_counts_unacknowledged_alerts(client, cast, run, told):
    client.force_login(cast.alice)
    assert "Unacknowledged alerts: 3" in page(client, "tasksets")
    told[0].acknowledge(cast.alice, 1)
    assert "Unacknowledged alerts: 2" in page(client, "tasksets")
    client.force_login(cast.carol)
    assert "No unacknowledged alerts" in page(client, "tasksets")


def test_banner_is_shown_on_the_runs_pages_until_acknowledged(client, cast, run):
    alert = opened(run)
    client.force_login(cast.alice)
    assert all(
        "No step for 2 h." in page(client, name, "lab", run.slug)
        for name in ("run", "run-weights", "run-alerts-banner")
    )
    alert.acknowledge(cast.alice, None)
    assert "No step for 2 h." not in page(client, "run-weights", "lab", run.slug)


def test_acknowledgement_shows_user_and_end_and_is_audited(client, cast, run):
    alert = opened(run)
    client.force_login(cast.alice)
    address = reverse("run-alert-acknowledge", args=["lab", run.slug, alert.pk])
    client.post(address, {"hours": "8"})
    assert "Acknowledged by alice until" in page(client, "run-alerts", "lab", run.slug)
    assert AuditEntry.objects.filter(
        action="alert acknowledged", by=cast.alice, target=f"run lab/{run.slug}"
    ).exists()
    client.post(address, {"hours": "forever"})
    alert.refresh_from_db()
    assert alert.acknowledged_until is not None


def test_rules_are_saved_in_the_configuration(client, cast, run):
    client.force_login(cast.alice)
    address = reverse("run-alert-rules", args=["lab", run.slug])
    form = {
        "seen": digest_settings(run),
        "kl": "on",
        "kl.reference": "0.5",
        "kl.behaviour": "0.1",
        "kl.steps": "2",
        "kl.pause": "on",
    }
    assert client.post(address, form).status_code == 302
    run.refresh_from_db()
    chosen = run.settings.alerts
    assert (chosen.kl.reference, chosen.kl.steps, chosen.kl.pause, chosen.disk) == (
        0.5,
        2,
        True,
        None,
    )
    assert ">off<" in page(client, "run-alerts", "lab", run.slug)


def test_rules_changed_by_another_user_meanwhile_are_not_overwritten(client, cast, run):
    client.force_login(cast.alice)
    form = {
        "seen": digest_settings(run),
        "kl": "on",
        "kl.reference": "0.5",
        "kl.behaviour": "0.1",
        "kl.steps": "2",
    }
    run.change_config(cast.admin, alerts={"disk": None})
    answer = client.post(reverse("run-alert-rules", args=["lab", run.slug]), form)
    text = answer.content.decode()
    assert answer.status_code == 409 and "Someone else changed the configuration" in text
    assert digest_settings(run) in text and 'value="0.5"' in text
    run.refresh_from_db()
    assert (run.settings.alerts.kl.reference, run.settings.alerts.disk) == (1.0, None)


def test_saving_unchanged_rules_records_no_change(client, cast, run):
    client.force_login(cast.alice)
    address = reverse("run-alert-rules", args=["lab", run.slug])
    form = {
        "seen": digest_settings(run),
        "kl": "on",
        "kl.reference": "0.5",
        "kl.behaviour": "0.1",
        "kl.steps": "2",
    }
    client.post(address, form)
    run.refresh_from_db()
    client.post(address, {**form, "seen": digest_settings(run)})
    assert run.topic.events.filter(kind="config_changed").count() == 1


def test_overview_banner_omits_alerts_already_shown_on_the_page(client, cast, run):
    opened(run)
    for kind in ("length", "style", "repetition"):
        opened(run, "suspected", "Length drifts.", kind)
    client.force_login(cast.alice)
    again = client.get(
        reverse("run-alerts-banner", args=["lab", run.slug]), {"place": "overview"}
    ).content.decode()
    shown = page(client, "run", "lab", run.slug)
    banner = shown[shown.index('id="alert-banner"') :][:900]
    assert "?place=overview" in banner
    for text in (banner, again):
        assert (
            "No step for 2 h." in text
            and "Possible reward hacking" not in text
            and "suspected of hacking" not in text
        )


def test_new_secret_and_removal_ask_for_confirmation(client, cast, project):
    channel = Channel.make(project, "webhook", "https://example.org/hook", cast.alice)
    client.force_login(cast.alice)
    text = page(client, "alert-channels", "lab")
    for act in ("secret", "remove"):
        assert (
            f'data-opens="{act}-{channel.pk}"' in text
            and f'<dialog id="{act}-{channel.pk}"' in text
        )


def test_page_of_all_alerts_reads_only_runs_with_open_alerts(client, cast, new_run, run):
    opened(run)
    for _ in range(3):
        new_run()
    client.force_login(cast.alice)
    assert client.get(reverse("alerts-now")).context["steered"] == {run.pk}


def test_invalid_threshold_is_refused_at_its_field_and_kept_in_the_form(client, cast, run):
    client.force_login(cast.alice)
    form = {
        "seen": digest_settings(run),
        "kl": "on",
        "kl.reference": "-4.25",
        "kl.behaviour": "0.1",
        "kl.steps": "2",
    }
    answer = client.post(reverse("run-alert-rules", args=["lab", run.slug]), form)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert "greater than 0" in text and "-4.25" in text
    run.refresh_from_db()
    assert run.settings.alerts.kl.reference == 1.0


def test_a_webhooks_secret_is_shown_once(client, cast, run):
    client.force_login(cast.alice)
    address = reverse("alert-channels", args=["lab"])
    answer = client.post(address, {"kind": "webhook", "address": "https://example.org/hook"})
    channel = Channel.objects.get()
    assert channel.secret in answer.content.decode() and answer["Cache-Control"].count("no-store")
    assert channel.secret not in page(client, "alert-channels", "lab")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"kind": "webhook", "address": "nonsense"}, "must begin with"),
        (
            {"kind": "pigeon", "address": "https://example.org"},
            "kind must be one of email, webhook",
        ),
        ({}, "kind must be one of email, webhook"),
        ({"kind": "email", "address": "team@example.org"}, "e-mail is not configured"),
    ],
)
def test_invalid_channel_is_refused_with_a_message(client, cast, settings, form, words):
    settings.EMAIL_HOST = ""
    client.force_login(cast.alice)
    answer = client.post(reverse("alert-channels", args=["lab"]), form)
    assert (
        answer.status_code == 422
        and words in answer.content.decode()
        and not Channel.objects.exists()
    )


def test_same_address_cannot_be_added_twice(client, cast, project):
    client.force_login(cast.alice)
    for _ in range(2):
        answer = client.post(
            reverse("alert-channels", args=["lab"]),
            {"kind": "webhook", "address": "https://example.org/hook"},
        )
    assert answer.status_code == 422 and Channel.objects.count() == 1


def test_test_message_is_queued_and_shown(client, cast, project):
    channel = Channel.make(project, "webhook", "https://example.org/hook", cast.alice)
    client.force_login(cast.alice)
    client.post(reverse("alert-channel-act", args=["lab", channel.pk, "test"]))
    assert Delivery.objects.get().kind == "test" and "waiting" in page(
        client, "alert-channels", "lab"
    )


def test_channel_changes_and_removal_are_audited(client, cast, project):
    channel = Channel.make(project, "webhook", "https://example.org/hook", cast.alice)
    client.force_login(cast.alice)
    for verb in ("off", "on", "secret", "remove"):
        client.post(reverse("alert-channel-act", args=["lab", channel.pk, verb]))
    assert not Channel.objects.exists()
    acts = list(
        AuditEntry.objects.filter(by=cast.alice).order_by("pk").values_list("action", flat=True)
    )
    assert acts == [f"alert channel: {verb}" for verb in ("off", "on", "secret", "remove")]
    assert (
        client.post(reverse("alert-channel-act", args=["lab", channel.pk, "test"])).status_code
        == 404
    )
