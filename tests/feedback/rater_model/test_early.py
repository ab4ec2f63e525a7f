"""With how many decisions a rater model begins: those it can learn, and all that were asked before the first update."""

from apps.feedback.settling import is_early, settle_ready

SCHEDULE = {"decisions": 8, "first": 0.5, "first_at_least": 0, "rewrites": 4}


def test_a_rewrite_is_one_of_the_first_decisions(modelled, put, decide, bob):
    run = modelled(schedule=SCHEDULE)
    put(run, groups=4)
    said = decide(bob, run, answer=lambda held: {"text": "thank you kindly"} if held.form == "rewrite" else {"stars": 4})
    assert sorted(rating.form for rating in said) == ["rewrite", "rewrite", "stars", "stars"]
    assert not is_early(run) and settle_ready() == 4


def test_before_they_are_all_said_it_is_early(modelled, put, decide, bob):
    run = modelled(schedule=SCHEDULE)
    put(run, groups=4)
    decide(bob, run, 3, answer=lambda held: {"text": "thank you kindly"} if held.form == "rewrite" else {"stars": 4})
    assert is_early(run) and settle_ready() == 0
