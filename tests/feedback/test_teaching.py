"""How many turns of a dialogue there are to judge: as many as the rating page shows."""

from apps.feedback.showing import marked
from apps.feedback.teaching import policy_turns
from apps.rollouts.models import Rollout
from apps.rollouts.turns import POLICY, USER, Turn, Typed, kept, turns_of

TYPED, EDITED = (Typed(1, 0, 5, 0, 6),), (Typed(2, 14, 15, 13, 1),)
TURNS = (Turn(POLICY, "hello", 0, 0, 6, TYPED), Turn(USER, "and?", 7, 6, 6), Turn(POLICY, "bye", 13, 12, 4, EDITED))


def test_a_turn_that_a_person_typed_or_edited_is_one_of_the_policys():
    rollout = Rollout(text="hello\n\nand?\n\nbye", turns=kept(TURNS), completion_tokens=16)
    shown = [turn for turn in marked(turns_of(rollout), {}) if turn["is_policy"]]
    assert policy_turns(rollout) == len(shown) == 2


def test_a_reply_of_one_turn_has_one():
    assert policy_turns(Rollout(text="12345", completion_tokens=5)) == 1
