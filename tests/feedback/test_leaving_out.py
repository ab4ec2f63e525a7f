"""Selected groups are left out of training as long as no step has taken them, and the ledger stays
consistent.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from apps.accounts.models import AuditEntry
from apps.buffer.models import Experience
from apps.buffer.models.steps import plan_step
from apps.dashboard.reconciliation import reconcile
from apps.feedback.item_opening import open_items
from apps.feedback.leaving_out import drop_groups
from apps.feedback.models import Slot
from apps.rollouts.models import Group
from apps.runs.models import NotPossible
from apps.streaming.models import Event
from tests.feedback.ready import put_ready
from tests.locks import somebody_waits

pytestmark = pytest.mark.django_db
NO_ENGINE = ("engines served what was published",)  # no engine runs here


@pytest.fixture
def ready(new_run, finish):
    """Return a function that creates a run with an active trainer and ready groups."""

    def make(groups=4):
        run = new_run(steps=20, max_staleness=10, groups_per_step=2)
        found = finish(run, ["12345", "54321"], groups=groups)
        run.refresh_from_db()
        for group in found:
            Group.objects.filter(pk=group.pk).update(state=Group.State.ADMITTED)
            put_ready(group)
        run.claim_trainer("trainer", 60)
        return run, [group.pk for group in found]

    return make


def violated() -> dict[str, list[str]]:
    return {name: found for name, found in reconcile().items() if found and name not in NO_ENGINE}


def states(groups: list[int]) -> list[set[str]]:
    """Return the states of each group's experiences."""
    return [
        set(Experience.objects.filter(group=group).values_list("state", flat=True))
        for group in groups
    ]


def test_open_and_ready_groups_are_dropped_and_claimed_groups_stay(ready, finish, alice):
    run, groups = ready()
    plan_step(run, run.fence)
    [waiting] = finish(run)
    run.refresh_from_db()
    before = run.groups_dropped
    found = drop_groups(run, [*groups, waiting.pk], alice, "they plead")
    assert (found.dropped, found.in_steps, found.dropped_before) == (3, 2, 0)
    assert states(groups) == [{"claimed"}, {"claimed"}, {"dropped"}, {"dropped"}]
    waiting.refresh_from_db()
    run.refresh_from_db()
    assert (waiting.state, waiting.reason) == ("dropped", "dropped by alice: they plead")
    assert run.groups_dropped == before + 3 and not violated()


def test_person_and_reason_of_a_drop_are_recorded(ready, alice):
    run, groups = ready()
    drop_groups(run, groups[:1], alice, "they plead")
    entry = AuditEntry.objects.get(action="groups dropped")
    assert (entry.by, entry.details["reason"], entry.details["groups"]) == (
        alice,
        "they plead",
        groups[:1],
    )
    event = Event.objects.get(topic=run.topic, kind="groups_dropped")
    assert event.payload == {"groups": 1, "reason": "they plead", "by": "alice"}


def test_dropped_group_has_no_open_items(seeded_waiting, alice):
    run, group = seeded_waiting
    drop_groups(run, [group.pk], alice, "spam")
    assert not Slot.objects.filter(group=group, state="open").exists() and not violated()


@pytest.fixture
def seeded_waiting(new_run, finish):
    """Create a group that waits for ratings."""
    run = new_run(people={"form": "stars", "per_group": 2})
    [group] = finish(run)
    group.refresh_from_db()
    Group.objects.filter(pk=group.pk).update(
        state=Group.State.WAITING, deadline_at="2100-01-01T00:00Z"
    )
    group.refresh_from_db()
    assert open_items([group])
    return run, group


@pytest.mark.parametrize("reason", ["", "  "])
def test_dropping_requires_a_reason(ready, alice, reason):
    run, groups = ready()
    with pytest.raises(ValueError, match="Enter a reason"):
        drop_groups(run, groups, alice, reason)
    assert states(groups) == [{"ready"}] * 4


def test_dropping_only_claimed_groups_is_rejected_and_changes_nothing(ready, alice):
    run, groups = ready(2)
    plan_step(run, run.fence)
    with pytest.raises(NotPossible, match="open or ready"):
        drop_groups(run, groups, alice, "late")
    assert (
        states(groups) == [{"claimed"}, {"claimed"}]
        and not AuditEntry.objects.filter(action="groups dropped").exists()
    )


@pytest.mark.django_db(transaction=True)
def test_drop_waits_for_the_planning_trainer_and_keeps_the_groups_it_took(ready, alice, eventually):
    run, groups = ready()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            plan_step(run, run.fence)
            other = pool.submit(_elsewhere, lambda: drop_groups(run, groups, alice, "they plead"))
            eventually(somebody_waits)
        assert other.result(30).in_steps == 2
    assert states(groups) == [{"claimed"}, {"claimed"}, {"dropped"}, {"dropped"}] and not violated()


@pytest.mark.django_db(transaction=True)
def test_trainer_waits_for_a_drop_and_plans_without_the_dropped_groups(ready, alice, eventually):
    run, groups = ready()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            drop_groups(run, groups[:2], alice, "they plead")
            other = pool.submit(_elsewhere, lambda: plan_step(run, run.fence))
            eventually(somebody_waits)
        assert set(other.result(30).items.values_list("experience__group", flat=True)) == set(
            groups[2:]
        )
    assert states(groups) == [{"dropped"}, {"dropped"}, {"claimed"}, {"claimed"}] and not violated()


def _elsewhere(act):
    try:
        return act()
    finally:
        connection.close()
