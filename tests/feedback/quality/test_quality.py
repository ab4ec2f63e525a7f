"""Statistics on people's ratings: agreement, speed, position bias and gold items."""

import pytest

from apps.accounts.models import User
from apps.feedback import known_items, rater_quality
from apps.feedback.forms import FORMS
from apps.feedback.quality.agreeing import (
    agreements,
    list_agreement_pairs,
    list_measured_values,
    measure_repeat_agreement,
)
from apps.feedback.quality.decisions import Decision, newest_decisions
from apps.feedback.quality.disputes import list_disputes
from apps.feedback.quality.raters import leaning, max_per_minute, measure_pace, raters
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
def test_most_ratings_within_a_minute_are_counted(seconds, most):
    assert max_per_minute(seconds) == most


def test_equal_ratings_give_full_agreement():
    said = [
        decision({"stars": stars}, rater, (unit,))
        for unit, stars in ((7, 5), (8, 1), (9, 3))
        for rater in (1, 2)
    ]
    [stars] = agreements(said)
    assert (stars.percent.value, stars.headline.value, stars.verdict) == (1.0, 1.0, "good")
    assert stars.bounds == (1.0, 1.0)


def test_missing_agreement_has_a_reason():
    [stars] = agreements([decision({"stars": 5})])
    assert stars.headline.value is None and stars.verdict == "" and stars.bounds is None
    assert "no item has two ratings" in stars.headline.why


def test_repeat_by_the_same_person_counts_as_consistency_not_agreement():
    said = [
        decision({"stars": 5}, item=1),
        decision({"stars": 5}, item=2, purpose="repeat"),
        decision({"stars": 1}, shown=(8,)),
        decision({"stars": 3}, shown=(8,), item=4, purpose="repeat"),
    ]
    assert agreements(said)[0].percent.value is None
    assert (measure_repeat_agreement(said).same, measure_repeat_agreement(said).of) == (1, 2)


def test_repeat_by_another_person_counts_as_agreement():
    said = [decision({"stars": 5}, 1, item=1), decision({"stars": 4}, 2, item=2, purpose="repeat")]
    assert agreements(said)[0].percent.units == 1


def test_known_items_do_not_count_as_agreement():
    said = [
        decision({"stars": 5}, rater, purpose="attention", expected={"stars": 5})
        for rater in (1, 2)
    ]
    assert agreements(said) == []


def test_pairs_are_compared_independently_of_the_side_of_each_reply():
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
def test_each_form_gives_its_own_measures(form, answer, shown, measures):
    found = {}
    for measure, _, value in list_measured_values(decision(answer, shown=shown, form=form)):
        found.setdefault(measure.words, []).append(value)
    assert found == measures


def test_forms_that_can_be_measured_are_the_expected_ones():
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


def test_person_who_always_chooses_the_first_reply_has_position_bias():
    said = [decision({"preference": -1}, 1, (n, n + 1), "pairwise") for n in range(0, 60, 2)]
    assert leaning(said).share == 1 and leaning(said).expected == 0.5 and leaning(said).is_leaning


def test_single_comparison_shows_no_position_bias():
    assert not leaning([decision({"preference": -1}, 1, (1, 2), "pairwise")]).is_leaning


def test_ties_and_both_bad_do_not_count_for_position_bias():
    said = [
        decision({"preference": 0}, 1, (1, 2), "pairwise"),
        decision({"both_bad": True}, 1, (1, 2), "pairwise"),
    ]
    assert leaning(said).of == 0 and leaning(said).share is None


def test_position_bias_of_a_ranking_counts_its_top_places():
    said = [decision({"ranks": {"1": 1, "2": 1, "3": 2}}, 1, (1, 2, 3), "ranking")]
    assert (leaning(said).first, leaning(said).expected) == (0.5, pytest.approx(1 / 3))


def test_disputes_are_sorted_by_distance():
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


def test_flag_against_a_value_has_the_largest_distance():
    said = [decision({"stars": 3}, 1), decision({"reason": "cut off"}, 2, form="flag")]
    assert [one.apart for one in list_disputes(said, PEOPLE)] == [1.0]


@pytest.fixture
def decided(new_run, finish, project):
    """Create a run that three people have rated: ann strictly, ben leniently, cem at random and
    instantly.
    """
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
def test_weight_noise_bias_and_speed_of_each_rater_are_recognized(decided):
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
def test_speed_limit_is_at_least_a_second_or_the_reading_time(decided):
    pace = measure_pace(newest_decisions(decided))
    assert pace.bound_s == max(1.0, pace.characters / 50)
    assert 20 <= pace.characters <= 80


@pytest.mark.django_db
def test_position_bias_is_measured_on_real_pairs(new_run, finish, project):
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
