"""Differences between two configurations, by scorer name, and undoing a single change."""

from apps.dashboard.differences import Difference, list_field_differences
from apps.runs.differences import undo_change


def rewards(**weights):
    return {
        "rewards": [
            {"scorer": name, "weight": weight, "trust": None} for name, weight in weights.items()
        ]
    }


def test_difference_of_a_weight_is_reported_under_its_scorers_name():
    found = list(
        list_field_differences(rewards(math=1.0, length=0.1), rewards(length=0.5, math=1.0))
    )
    assert found == [Difference("rewards.length.weight", "0.1", "0.5")]


def test_section_that_is_switched_off_or_on_is_one_difference():
    [off] = list_field_differences(
        {"people": {"rater_model": {"audit": 0.1}}}, {"people": {"rater_model": None}}
    )
    assert off == Difference("people.rater_model", "audit: 0.1", "–")
    [on] = list_field_differences(
        {"people": {"rater_model": None}}, {"people": {"rater_model": {"audit": 0.1}}}
    )
    assert on == Difference("people.rater_model", "–", "audit: 0.1")


def test_undoing_one_weight_keeps_a_later_change_of_another():
    before = rewards(math=1.0, length=0.1)
    after = rewards(math=2.0, length=0.1)
    now = rewards(math=2.0, length=0.5)
    assert undo_change(before, after, now) == rewards(math=1.0, length=0.5)


def test_undo_restores_a_removed_scorer_and_removes_an_added_one():
    before = rewards(math=1.0, tone=1.0)
    after = rewards(math=1.0, length=0.1)
    assert undo_change(before, after, rewards(math=3.0, length=0.2)) == rewards(math=3.0, tone=1.0)


def test_undo_restores_a_section_that_was_switched_off():
    before = {"budget": {"money": 5.0}}
    after = {"budget": None}
    assert undo_change(before, after, after) == before
    assert undo_change(after, before, before) == after
