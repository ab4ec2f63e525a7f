"""The marks on a run's charts: changes of its configuration and actions on it, within the shown
range.
"""

from datetime import timedelta

import pytest
from django.db.models import F

from apps.accounts.models import AuditEntry
from apps.dashboard.curves import list_changes
from apps.feedback.leaving_out import drop_groups

pytestmark = pytest.mark.django_db


def marked(run, **window):
    run.refresh_from_db()
    return [mark["words"] for mark in list_changes(run, **window)]


def test_actions_of_users_are_marked_with_their_reasons(seeded):
    run = seeded.run
    run.pause(seeded.alice, reason="look at it")
    run.resume(seeded.alice)
    run.ask_checkpoint(seeded.alice)
    drop_groups(run, {seeded.waiting.group_id}, seeded.alice, "spam")
    assert marked(run)[:4] == [
        "1 group dropped: spam",
        "checkpoint requested",
        "resumed",
        "paused: look at it",
    ]


def test_changed_weight_is_marked_with_its_scorer(seeded):
    [choice, *others] = [choice.model_dump(mode="json") for choice in seeded.run.settings.rewards]
    seeded.run.change_config(seeded.alice, rewards=[choice | {"weight": 0.25}, *others])
    assert marked(seeded.run)[0] == f"rewards.{choice['scorer']}.weight {choice['weight']} → 0.25"


def test_disabled_section_is_marked(seeded):
    seeded.run.change_config(seeded.alice, budget={"gpu_hours": 5.0})
    seeded.run.change_config(seeded.alice, budget=None)
    [off, on, *_] = marked(seeded.run)
    assert off.startswith("budget ") and off.endswith("→ –") and on.startswith("budget – → ")


def test_range_shows_only_marks_within_it(seeded):
    run = seeded.run
    run.pause(seeded.alice, reason="long ago")
    first = run.steps.get(number=1)
    AuditEntry.objects.filter(action="run paused").update(
        at=first.committed_at - timedelta(seconds=1)
    )
    run.steps.filter(number__gt=1).update(committed_at=F("committed_at") + timedelta(minutes=5))
    assert "paused: long ago" in marked(run, until=1) and "paused: long ago" not in marked(
        run, since=1
    )
