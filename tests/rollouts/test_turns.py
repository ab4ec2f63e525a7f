"""Turns are stored with a rollout and read back."""

from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import (
    POLICY,
    USER,
    Turn,
    TypedSpan,
    list_turns,
    said_by_policy,
    spoken_by_policy,
)
from tests.conftest import tokens_of

TEXT = "hello\n\nand?\n\nbye"
TURNS = (
    Turn(POLICY, "hello", 0, 0, 6, (TypedSpan(5, 0, 5, 0, 6),)),
    Turn(USER, "and?", 7, 6, 6),
    Turn(POLICY, "bye", 13, 12, 4, (TypedSpan(5, 13, 14, 12, 1), TypedSpan(6, 15, 16, 14, 2))),
)


def finished(run, turns: tuple[Turn, ...], text: str = TEXT) -> Rollout:
    (group,) = Group.open(run, "explorer", 60, 1, 0)
    rollout = Rollout.objects.filter(group=group).first()
    Group.finish_rollouts(
        {group.pk: group.claimed}, [Outcome(rollout.pk, tokens_of("12345"), text, "stop", turns)]
    )
    rollout.refresh_from_db()
    return rollout


def test_stored_turns_are_read_back_unchanged(run):
    assert list_turns(finished(run, TURNS)) == list(TURNS)


def test_single_turn_rollout_stores_no_turns_but_has_one(run):
    rollout = finished(run, (), "12345")
    assert rollout.turns == [] and list_turns(rollout) == [Turn(POLICY, "12345", 0, 0, 5)]


def test_texts_of_the_policy_are_found_whatever_they_contain(run):
    rollout = finished(run, TURNS)
    assert said_by_policy(rollout.text, rollout.turns) == ["hello", "bye"]
    assert said_by_policy("and?\n\nbye", []) == ["and?\n\nbye"]


def test_rollout_without_turns_of_the_policy_is_recognized(run):
    assert spoken_by_policy(finished(run, TURNS))
    assert not spoken_by_policy(finished(run, TURNS[:2], "hello\n\nand?"))


def test_characters_that_cannot_be_stored_do_not_shift_the_turns(run):
    text = "h\x00l\ud800o\n\nand?\n\nbye"
    rollout = finished(run, (Turn(POLICY, text[:5], 0, 0, 6), *TURNS[1:]), text)
    assert [turn.text for turn in list_turns(rollout)] == ["h\u2400l?o", "and?", "bye"]
