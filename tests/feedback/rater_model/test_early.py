"""With how many decisions a rater model begins: those it can learn, and all that were asked before
the first update.
"""

import pytest

from apps.feedback.group_completion import is_early, settle_ready
from apps.feedback.rater_model.learning import learn

pytestmark = pytest.mark.django_db

SCHEDULE = {"decisions": 8, "first": 0.5, "first_at_least": 0, "rewrites": 4}


def test_a_rewrite_is_one_of_the_first_decisions(modelled, put, decide, bob):
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


def test_before_they_are_all_said_it_is_early(modelled, put, decide, bob):
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


def test_who_waits_for_the_model_counts_what_it_can_learn(modelled, put, decide, bob):
    """Two bad ones are not ordered: nothing is learned of that, and the group waits on."""
    run = modelled(form="pairwise", rater_model={"repeats": 0, "at_least": 2})
    put(run, groups=4)
    decide(bob, run, 2, answer=lambda held: {"both_bad": True})
    assert is_early(run) and learn(run).learner.decisions == 0
    decide(bob, run, 2, answer=lambda held: {"preference": 2})
    assert not is_early(run) and learn(run).learner.decisions == 2
