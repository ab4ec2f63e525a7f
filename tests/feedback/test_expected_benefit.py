"""Where people's time pays most: rewards that spread, scorers that disagree, a model that is
uncertain.
"""

import pytest

from apps.feedback.claiming import claim
from apps.feedback.expected_benefit import worth
from apps.feedback.item_opening import open_items
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group


def test_group_with_equal_rewards_is_worth_nothing():
    assert worth([{"a": 0.5}, {"a": 0.5}]) == 0


def test_widest_spread_has_the_highest_worth():
    assert worth([{"a": 0.0}, {"a": 1.0}]) == 1
    assert 0 < worth([{"a": 0.4}, {"a": 0.6}]) < 1


def test_disagreeing_scorers_have_a_high_worth():
    assert worth([{"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 1.0}]) == 1


def test_uncertain_model_raises_the_worth():
    assert worth([], uncertainty=0.25) == 0.5


@pytest.mark.django_db
def test_group_with_spread_rewards_comes_first(new_run, finish, bob):
    run = new_run(people={"per_group": 2, "deadline_s": 600})
    finish(run, ["alike", "alike"], groups=2)
    groups = Group.objects.claim(Group.State.SCORING, "scorer", 60, 10)
    second = groups[1].pk
    answers = [
        AnsweredQuestion(q, [Verdict(float(q.group_id == second and n % 2), "test")])
        for n, q in enumerate(open_questions(groups))
    ]
    open_items(record_verdicts(groups, answers))
    assert claim(bob)[0].group_id == second
