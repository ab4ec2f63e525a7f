"""The rewards that a row of a rollout list shows. Needs no services; takes a few milliseconds."""

from apps.dashboard.rollout_rows import list_chips
from apps.rewards.models import Reward

HUMAN = Reward.Source.HUMAN
RULE = Reward(source=Reward.Source.RULE, scorer="tone", value=0.5)
OF_BOB = Reward(source=HUMAN, scorer="bob", value=0.75, by_id=2)


def test_one_persons_rating_is_not_shown_twice():
    combined = Reward(source=HUMAN, scorer="people", value=0.75)
    assert list_chips([combined, OF_BOB, RULE]) == [OF_BOB, RULE]


def test_a_combined_rating_of_another_value_is_shown():
    combined = Reward(source=HUMAN, scorer="people", value=0.6)  # weighted, or adjudicated
    assert list_chips([combined, OF_BOB, RULE]) == [combined, OF_BOB, RULE]


def test_the_combined_rating_of_two_people_is_shown():
    combined = Reward(source=HUMAN, scorer="people", value=0.75)
    of_carol = Reward(source=HUMAN, scorer="carol", value=0.75, by_id=3)
    assert list_chips([combined, OF_BOB, of_carol]) == [combined, OF_BOB, of_carol]
