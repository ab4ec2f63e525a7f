"""Every action that needs a permission is audited, with the user who did it."""

import pytest

from apps.accounts.models import AuditEntry, Token
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, Run


def newest() -> AuditEntry:
    return AuditEntry.objects.order_by("-pk").first()


def test_pause_is_audited_with_user_and_reason(run, alice):
    run.pause(by=alice, reason="lunch")
    entry = newest()
    assert (entry.action, entry.target, entry.name, entry.project) == (
        "run paused",
        f"run lab/{run.slug}",
        "alice",
        run.project,
    )
    assert entry.details == {"reason": "lunch"}


def test_configuration_change_is_audited_with_old_and_new_values(run, alice):
    run.change_config(alice, group_attempts=7)
    assert newest().details == {"before": {"group_attempts": 3}, "after": {"group_attempts": 7}}


def test_a_refused_change_leaves_no_entry(run, alice):
    before = AuditEntry.objects.count()
    with pytest.raises(ConfigError):
        run.change_config(alice, group_attempts=-1)
    assert AuditEntry.objects.count() == before


def test_setting_the_current_value_records_no_change(run, alice):
    before = AuditEntry.objects.count()
    assert not run.change_config(alice, group_attempts=run.settings.group_attempts)
    assert AuditEntry.objects.count() == before
    assert not run.topic.events.filter(kind="config_changed").exists()


def test_change_is_refused_if_another_user_changed_the_run_meanwhile(run, alice):
    theirs = Run.objects.get(pk=run.pk)
    theirs.change_config(alice, group_attempts=7)
    with pytest.raises(ChangedMeanwhile):
        run.change_config(alice, unless_changed=True, group_attempts=5)
    theirs.refresh_from_db()
    assert theirs.settings.group_attempts == 7


def test_issued_token_is_audited_without_its_secret(alice):
    token, secret = Token.issue(alice, "ci", [Token.Scope.READ], by=alice)
    entry = newest()
    assert (entry.action, entry.target, entry.by) == (
        "token issued",
        f"token {token} of alice",
        alice,
    )
    assert secret not in str(entry.details)


def test_pause_by_the_system_is_audited_without_a_user(run):
    run.pause(reason="the engine died")
    assert (newest().by, newest().name) == (None, "")


def test_audit_entry_keeps_the_name_of_a_deleted_user(run, carol):
    AuditEntry.record("tried", "run x", carol)
    carol.delete()
    assert (newest().by, newest().name) == (None, "carol")
