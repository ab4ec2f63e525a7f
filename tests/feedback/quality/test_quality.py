"""What is said of people's decisions: who agrees, who is fast, who leans, who met gold."""

import pytest

from apps.accounts.models import User
from apps.feedback import known_items, rater_quality
from apps.feedback.forms import FORMS
from apps.feedback.quality.agreeing import (
    agreements,
    asked_again,
    list_agreement_pairs,
    list_measured_values,
)
from apps.feedback.quality.decisions import Decision, newest_decisions
from apps.feedback.quality.disputes import list_disputes
from apps.feedback.quality.raters import leaning, measure_pace, most_a_minute, raters
from apps.feedback.rater_quality import load_quality
from apps.rollouts.models import Rollout
from apps.runs.people import People
from tests.feedback.asking import ask
from tests.feedback.quality.deciding import (
    REPLIES,
    anyhow,
    better,
    everybody,
    first_shown,
    lenient,
    strict,
)

PEOPLE = People(form="rubric", rubric=[{"name": "polite"}, {"name": "right"}])


@pytest.fixture(autouse=True)
def forget():
    rater_quality.clear_quality_cache()


def decision(
    answer, rater=1, shown=(7,), form="stars", item=1, purpose="reward", seconds=5.0, **changes
):
    name = {1: "ann", 2: "ben", 3: "cem"}[rater]
    return Decision(
        0,
        rater,
        name,
        False,
        form,
        answer,
        list(shown),
        item,
        purpose,
        changes.get("expected"),
        seconds,
        "",
        0.0,
    )


def by_words(found):
    return {one.measure.words: one for one in found}


@pytest.mark.parametrize(
    ("seconds", "most"),
    [([], 0), ([0], 1), ([0, 59, 60, 118], 3), ([0, 0, 0, 61], 3), ([70, 0, 65], 2)],
)
def test_the_busiest_minute_of_a_person_is_counted(seconds, most):
    assert most_a_minute(seconds) == most


def test_people_who_say_the_same_agree():
    said = [
        decision({"stars": stars}, rater, (unit,))
        for unit, stars in ((7, 5), (8, 1), (9, 3))
        for rater in (1, 2)
    ]
    [stars] = agreements(said)
    assert (stars.percent.value, stars.headline.value, stars.verdict) == (1.0, 1.0, "good")
    assert stars.bounds == (1.0, 1.0)


def test_nobody_to_compare_with_is_said_in_words():
    [stars] = agreements([decision({"stars": 5})])
    assert stars.headline.value is None and stars.verdict == "" and stars.bounds is None
    assert "no item has two ratings" in stars.headline.why


def test_the_same_person_twice_is_no_agreement_but_steadiness():
    said = [
        decision({"stars": 5}, item=1),
        decision({"stars": 5}, item=2, purpose="repeat"),
        decision({"stars": 1}, shown=(8,)),
        decision({"stars": 3}, shown=(8,), item=4, purpose="repeat"),
    ]
    assert agreements(said)[0].percent.value is None
    assert (asked_again(said).same, asked_again(said).of) == (1, 2)


def test_another_person_asked_again_about_the_same_replies_is_compared():
    said = [decision({"stars": 5}, 1, item=1), decision({"stars": 4}, 2, item=2, purpose="repeat")]
    assert agreements(said)[0].percent.units == 1


def test_known_answers_are_no_agreement():
    said = [
        decision({"stars": 5}, rater, purpose="attention", expected={"stars": 5})
        for rater in (1, 2)
    ]
    assert agreements(said) == []


def test_a_pair_is_compared_whatever_side_its_replies_were_shown_on():
    said = [
        decision({"preference": -2}, 1, (7, 3), "pairwise"),
        decision({"preference": 2}, 2, (3, 7), "pairwise"),
        decision({"preference": 1}, 1, (4, 5), "pairwise"),
        decision({"preference": -1}, 2, (5, 4), "pairwise"),
    ]
    found = by_words(agreements(said))
    assert (
        found["which of two"].percent.value == 1
        and found["strength of preference"].percent.value == 1
    )


@pytest.mark.parametrize(
    ("form", "answer", "shown", "measures"),
    [
        ("thumbs", {"up": True}, (7,), {"thumbs": [1.0]}),
        ("stars", {"stars": 4}, (7,), {"stars": [4.0]}),
        ("pairwise", {"both_bad": True}, (7, 3), {"which of two": [3.0]}),
        ("ranking", {"ranks": {"7": 2, "3": 1}}, (7, 3), {"rank": [2.0, 1.0]}),
        ("best_worst", {"best": 7, "worst": 3}, (7, 3), {"best": [1.0], "worst": [0.0]}),
        ("rubric", {"scales": {"polite": 4, "right": 1}}, (7,), {"polite": [4.0], "right": [1.0]}),
        ("turns", {"marks": {"0": 1, "2": -1}}, (7,), {"marks on turns": [1.0, -1.0]}),
        ("turns", {"first_error": None, "of": 3}, (7,), {"first error": [-1.0]}),
        ("critique", {}, (7,), {}),
        ("flag", {"reason": "cut off"}, (7,), {}),
    ],
)
def test_each_form_is_asked_what_it_measures(form, answer, shown, measures):
    found = {}
    for measure, _, value in list_measured_values(decision(answer, shown=shown, form=form)):
        found.setdefault(measure.words, []).append(value)
    assert found == measures


def test_every_form_can_be_measured_or_says_nothing():
    assert {form for form in FORMS if form not in ("spans", "critique", "rewrite", "flag")} == {
        "thumbs",
        "stars",
        "pairwise",
        "ranking",
        "best_worst",
        "rubric",
        "turns",
    }


def test_cohens_kappa_of_each_two_people():
    answers = {1: (5, 1, 3, 2), 2: (5, 1, 3, 2), 3: (1, 5, 3, 4)}
    said = [
        decision({"stars": stars}, rater, (unit,))
        for rater, row in answers.items()
        for unit, stars in enumerate(row)
    ]
    found = {
        pair.names: pair.kappa.value
        for pair in list_agreement_pairs(said, agreements(said)[0].measure)
    }
    assert found[("ann", "ben")] == 1.0
    assert found[("ann", "cem")] < 0


def test_who_always_takes_the_first_leans():
    said = [decision({"preference": -1}, 1, (n, n + 1), "pairwise") for n in range(0, 60, 2)]
    assert leaning(said).share == 1 and leaning(said).expected == 0.5 and leaning(said).is_leaning


def test_a_few_comparisons_tell_nothing_of_sides():
    assert not leaning([decision({"preference": -1}, 1, (1, 2), "pairwise")]).is_leaning


def test_ties_and_two_bad_ones_are_on_no_side():
    said = [
        decision({"preference": 0}, 1, (1, 2), "pairwise"),
        decision({"both_bad": True}, 1, (1, 2), "pairwise"),
    ]
    assert leaning(said).of == 0 and leaning(said).share is None


def test_a_ranking_leans_by_what_stands_on_top():
    said = [decision({"ranks": {"1": 1, "2": 1, "3": 2}}, 1, (1, 2, 3), "ranking")]
    assert (leaning(said).first, leaning(said).expected) == (0.5, pytest.approx(1 / 3))


def test_disputes_come_furthest_apart_first():
    said = [
        decision({"stars": 5}, 1, item=1),
        decision({"stars": 4}, 2, item=1),
        decision({"stars": 5}, 1, (8,), item=2),
        decision({"stars": 1}, 2, (8,), item=2),
        decision({"stars": 3}, 1, (9,), item=3),
        decision({"stars": 3}, 2, (9,), item=3),
        decision({"stars": 3}, 1, (10,), item=4),
    ]
    assert [(one.item, one.apart) for one in list_disputes(said, PEOPLE)] == [(2, 1.0), (1, 0.25)]


def test_a_flag_against_a_value_is_as_far_apart_as_can_be():
    said = [decision({"stars": 3}, 1), decision({"reason": "cut off"}, 2, form="flag")]
    assert [one.apart for one in list_disputes(said, PEOPLE)] == [1.0]


@pytest.fixture
def decided(new_run, finish, project):
    """A run that three people have judged: ann strictly, ben leniently, cem anyhow and at once."""
    run = new_run(
        group_size=4,
        max_staleness=20,
        people={
            "per_group": 4,
            "deadline_s": 6000,
            "overlap": 3,
            "open_claims": 100,
            "gold": {"rate": 1.0},
        },
    )
    ask(run, finish, REPLIES, groups=1)
    maker = User.objects.create(username="maker")
    for n, stars in ((0, 5), (1, 1)):
        rollouts = known_items.candidates(
            run, [Rollout.objects.filter(run=run, text=REPLIES[n]).first().pk]
        )
        known_items.create_known_item(run, rollouts, "gold", {"stars": stars}, "", maker)
    ask(run, finish, REPLIES, groups=5)
    everybody(project, run, {"ann": (strict, 6.2), "ben": (lenient, 9.0), "cem": (anyhow(3), 0.7)})
    return run


@pytest.mark.django_db
def test_each_rater_is_seen_as_he_or_she_is(decided):
    decisions = newest_decisions(decided)
    people = decided.settings.people
    pace = measure_pace(decisions)
    found = {
        one.name: one
        for one in raters(decisions, pace, load_quality(decided, "stars", people), people)
    }
    ann = found["ann"]
    ben = found["ben"]
    cem = found["cem"]
    assert ann.weight > cem.weight and ben.weight > cem.weight
    assert cem.noise > 2 * ann.noise and ben.bias > ann.bias
    assert (ann.gold.met, ann.gold.of) == (2, 2)
    assert cem.is_fast and not ann.is_fast and not ben.is_fast


@pytest.mark.django_db
def test_nobody_is_too_fast_below_a_second_or_what_reading_takes(decided):
    pace = measure_pace(newest_decisions(decided))
    assert pace.bound_s == max(1.0, pace.characters / 50)
    assert 20 <= pace.characters <= 80


@pytest.mark.django_db
def test_sides_are_seen_of_real_pairs(new_run, finish, project):
    run = new_run(
        group_size=4,
        max_staleness=20,
        people={
            "form": "pairwise",
            "per_group": 4,
            "deadline_s": 6000,
            "overlap": 2,
            "open_claims": 100,
        },
    )
    ask(run, finish, REPLIES, groups=6)
    everybody(project, run, {"ann": (better, 5.0), "ben": (first_shown, 5.0)})
    decisions = newest_decisions(run)
    people = run.settings.people
    found = {
        one.name: one
        for one in raters(
            decisions, measure_pace(decisions), load_quality(run, "pairwise", people), people
        )
    }
    assert (
        found["ben"].leaning.is_leaning
        and found["ben"].leaning.share == 1 > found["ann"].leaning.share
    )
