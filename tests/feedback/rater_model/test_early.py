"""How many ratings a rater model needs to start: those it can learn from, and all requested before
the first step.
"""

import pytest

from apps.feedback.group_completion import is_early, settle_ready
from apps.feedback.rater_model.learning import learn

pytestmark = pytest.mark.django_db

SCHEDULE = {"decisions": 8, "initial_share": 0.5, "min_initial_ratings": 0, "rewrites": 4}


def test_rewrite_counts_as_one_of_the_first_ratings(modelled, put, decide, bob):
    run = modelled(schedule=SCHEDULE)
    put(run, groups=4)
    said = decide(
        bob,
        run,
        answer=lambda held: (
            {"text": "thank you kindly"} if held.form == "rewrite" else {"stars": 4}
        ),
    )
    assert sorted(rating.form for rating in said) == ["rewrite", "rewrite", "stars", "stars"]
    assert not is_early(run) and settle_ready() == 4


def test_model_is_early_until_all_first_ratings_are_given(modelled, put, decide, bob):
    run = modelled(schedule=SCHEDULE)
    put(run, groups=4)
    decide(
        bob,
        run,
        3,
        answer=lambda held: (
            {"text": "thank you kindly"} if held.form == "rewrite" else {"stars": 4}
        ),
    )
    assert is_early(run) and settle_ready() == 0


def test_only_ratings_that_the_model_can_learn_count_towards_its_start(modelled, put, decide, bob):
    """Answer that both replies are bad: this gives no order to learn from, and the group keeps
    waiting.
    """
    run = modelled(form="pairwise", rater_model={"repeats": 0, "min_ratings": 2})
    put(run, groups=4)
    decide(bob, run, 2, answer=lambda held: {"both_bad": True})
    assert is_early(run) and learn(run).learner.decisions == 0
    decide(bob, run, 2, answer=lambda held: {"preference": 2})
    assert not is_early(run) and learn(run).learner.decisions == 2
