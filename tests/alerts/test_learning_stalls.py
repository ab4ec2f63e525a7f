"""A run from which nothing can be learned pauses with the reason; one that sometimes learns
continues.
"""

import pytest
from django.db.models.functions import Now

from apps.alerts.evaluating import look_at_runs
from apps.alerts.learning_stalls import most_common
from apps.alerts.models import Alert
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run


@pytest.fixture
def barren(healthy) -> Run:
    """Create a run that updates from 2 groups and pauses after 6 dropped groups in a row."""
    healthy.change_config(None, alerts={"nothing_learned": {"steps": 3}}, max_staleness=100)
    return Run.objects.get(pk=healthy.pk)


def drop(run: Run, *reasons: str) -> list[Group]:
    groups = Group.open(run, "test", 60, len(reasons), 0)
    assert len(groups) == len(reasons)
    for group, reason in zip(groups, reasons, strict=True):
        group.drop(reason)
    return groups


def looked_at(run: Run) -> Run:
    look_at_runs()
    run.refresh_from_db()
    return run


def test_window_of_dropped_groups_pauses_the_run_and_lists_the_common_causes(barren):
    same = "the standard deviation of the rewards is not above 0.01"
    drop(
        barren, same, same, "duplicates: 0.91 alike", "duplicates: 0.97 alike", "length: too short"
    )
    assert looked_at(barren).is_live
    drop(barren, same)
    assert looked_at(barren).state == Run.State.PAUSED
    assert (
        barren.state_reason
        == "Nothing learned: The last 6 groups were all dropped. Most common causes: "
        f"3 × {same}; 2 × duplicates: 0.97 alike; 1 × length: too short."
    )
    alert = Alert.objects.get(run=barren)
    assert (alert.rule, alert.has_paused) == ("nothing_learned", True) and "resume" in alert.todo


def test_resuming_the_run_starts_a_new_window(barren):
    drop(barren, *["dull"] * 6)
    looked_at(barren).resume()
    assert looked_at(barren).is_live and not Alert.objects.open().filter(run=barren).exists()
    drop(barren, *["dull"] * 5)
    assert looked_at(barren).is_live
    drop(barren, "dull")
    assert not looked_at(barren).is_live


def test_admitted_group_starts_a_new_window(barren):
    drop(barren, *["dull"] * 3)
    [good] = Group.open(barren, "test", 60, 1, 0)
    good.move(Group.State.ADMITTED, closed_at=Now())
    drop(barren, *["dull"] * 5)
    assert looked_at(barren).is_live
    drop(barren, "dull")
    assert not looked_at(barren).is_live


def test_update_starts_a_new_window(barren):
    drop(barren, *["dull"] * 6)
    Run.objects.filter(pk=barren.pk).update(trained_at=Now())
    assert looked_at(barren).is_live


def test_pause_reason_explains_groups_without_rewards(barren):
    for _ in range(6):
        [group] = Group.open(barren, "test", 60, 1, 0)
        rollouts = Rollout.objects.filter(group=group)
        Rollout.write_outcomes(
            [Outcome(row.pk, None, "", "the engine returned nothing (error)") for row in rollouts]
        )
        group.drop("0 of 4 rollouts have a reward; a group needs at least 2", failed=True)
    assert "6 × the engine returned nothing (error)" in looked_at(barren).state_reason


@pytest.mark.parametrize("rule", [None, {"steps": 4}, {"steps": 3, "pause": False}])
def test_window_can_be_changed_and_the_rule_disabled(barren, rule):
    barren.change_config(None, alerts={"nothing_learned": rule})
    drop(barren, *["dull"] * 6)
    assert looked_at(barren).is_live
    assert Alert.objects.filter(run=barren).exists() == (rule == {"steps": 3, "pause": False})


def test_causes_that_differ_only_in_numbers_are_counted_together():
    reasons = [
        "failed 3 times: away",
        "failed 2 times: away",
        "failed 3 times: away",
        *["dull"] * 2,
        "a",
        "b",
    ]
    assert most_common(reasons) == [(3, "failed 3 times: away"), (2, "dull"), (1, "b")]
