"""The number of turns of a dialogue to rate equals what the rating page shows."""

from apps.feedback.item_display import mark_turns
from apps.feedback.rewrite_lessons import policy_turns
from apps.rollouts.models import Rollout
from apps.rollouts.turns import POLICY, USER, Turn, TypedSpan, list_turns, store_turns

TYPED = (TypedSpan(1, 0, 5, 0, 6),)
EDITED = (TypedSpan(2, 14, 15, 13, 1),)
TURNS = (
    Turn(POLICY, "hello", 0, 0, 6, TYPED),
    Turn(USER, "and?", 7, 6, 6),
    Turn(POLICY, "bye", 13, 12, 4, EDITED),
)


def test_turn_typed_or_edited_by_a_person_counts_as_the_policys():
    rollout = Rollout(text="hello\n\nand?\n\nbye", turns=store_turns(TURNS), completion_tokens=16)
    shown = [turn for turn in mark_turns(list_turns(rollout), {}) if turn["is_policy"]]
    assert policy_turns(rollout) == len(shown) == 2


def test_reply_of_one_turn_has_one_turn():
    assert policy_turns(Rollout(text="12345", completion_tokens=5)) == 1
