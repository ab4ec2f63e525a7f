"""Every form reads its own answers into one spelling, and names each wrong field with what is
right.
"""

import pytest

from apps.feedback.forms import BUILT_IN, FORMS, BadAnswer, critique_of
from apps.rollouts.models import storable_output as storable_output
from apps.runs.people import COMPARES, People

RUBRIC = People(
    form="rubric",
    rubric=[
        {"name": "polite", "low": 1, "high": 5},
        {"name": "right", "low": 0, "high": 1, "weight": 3},
    ],
)
TEXT = "Good day to you."
# form, rollouts shown, what a browser sends, the canonical answer
GOOD = [
    ("thumbs", [7], {"up": True}, {"up": True}),
    ("stars", [7], {"stars": 5}, {"stars": 5}),
    ("pairwise", [7, 3], {"preference": -3}, {"preference": -3}),
    ("pairwise", [7, 3], {"both_bad": True}, {"both_bad": True}),
    (
        "ranking",
        [7, 3, 5],
        {"ranks": {"3": 1, "5": 3, "7": 3}},
        {"ranks": {"7": 2, "3": 1, "5": 2}},
    ),
    ("best_worst", [7, 3, 5], {"best": 5, "worst": 7}, {"best": 5, "worst": 7}),
    ("rubric", [7], {"scales": {"polite": 4, "right": 1}}, {"scales": {"polite": 4, "right": 1}}),
    ("turns", [7], {"marks": {"1": -1, "0": 1}}, {"marks": {"0": 1, "1": -1}}),
    ("turns", [7], {"first_error": 2}, {"first_error": 2, "of": 3}),
    ("turns", [7], {"first_error": None}, {"first_error": None, "of": 3}),
    (
        "spans",
        [7],
        {"spans": [{"start": 5, "end": 16}, {"start": 0, "end": 4, "note": "fine"}]},
        {"spans": [{"start": 0, "end": 4, "note": "fine"}, {"start": 5, "end": 16, "note": ""}]},
    ),
    ("critique", [7], {}, {}),
    ("rewrite", [7], {"text": "Good day.\r\nSir."}, {"text": "Good day.\nSir."}),
    ("flag", [7], {"reason": "empty"}, {"reason": "empty"}),
    ("flag", [7, 3], {"reason": "empty", "rollout": 3}, {"reason": "empty", "rollout": 3}),
]


def parse(form, raw, shown):
    return FORMS[form].parse(raw, shown, RUBRIC, text=TEXT, turns=3)


def problems_of(form, raw, shown=(7,)):
    with pytest.raises(BadAnswer) as refused:
        parse(form, raw, shown)
    return refused.value.problems


@pytest.mark.parametrize(("form", "shown", "raw", "canonical"), GOOD)
def test_a_good_answer_is_read_into_its_canonical_spelling(form, shown, raw, canonical):
    assert parse(form, raw, shown) == canonical


@pytest.mark.parametrize(("form", "shown", "raw", "canonical"), GOOD)
def test_the_canonical_spelling_is_read_as_itself(form, shown, raw, canonical):
    assert parse(form, canonical, shown) == canonical


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "flag"])
def test_every_form_is_a_folder_with_a_template_and_a_script(name):
    form = FORMS[name]
    assert form.name == name and form.asks and form.summary
    assert form.template.nodelist and "export function createForm(" in form.script


def test_the_forms_that_compare_are_those_that_look_at_two_or_more():
    assert {name for name, form in FORMS.items() if form.fewest > 1} == COMPARES


@pytest.mark.parametrize("form", sorted(FORMS))
def test_an_unknown_field_is_named_with_those_there_are(form):
    shown = list(range(1, FORMS[form].fewest + 1))
    problems = problems_of(form, {"colour": 1}, shown)
    assert list(problems) == ["colour"]
    assert "is not a field of" in problems["colour"]
    assert all(field in problems["colour"] for field in FORMS[form].fields)


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("raw", [None, [], "5", 5, True])
def test_what_is_no_object_is_refused(form, raw):
    assert problems_of(form, raw, list(range(1, FORMS[form].fewest + 1))) == {
        "answer": "must be an object with named fields"
    }


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"critique"}))
def test_an_empty_answer_says_what_is_missing(form):
    assert problems_of(form, {}, list(range(1, FORMS[form].fewest + 1)))


@pytest.mark.parametrize("stars", [True, 0, 6, 3.0, "3", None, [3], 10**30])
def test_stars_are_whole_numbers_from_1_to_5(stars):
    assert problems_of("stars", {"stars": stars}) == {"stars": "must be a whole number from 1 to 5"}


@pytest.mark.parametrize("up", [1, 0, "true", None])
def test_a_thumb_is_a_truth_value(up):
    assert problems_of("thumbs", {"up": up}) == {"up": "must be true (good) or false (bad)"}


@pytest.mark.parametrize("preference", [4, -4, True, "1", 0.5, None, [1, -1]])
def test_a_preference_off_the_scale_is_refused(preference):
    assert problems_of("pairwise", {"preference": preference}, [1, 2]) == {
        "preference": "must be a whole number from -3 to 3"
    }


def test_both_sides_of_a_pair_cannot_be_chosen():
    assert (
        "give either a preference"
        in problems_of("pairwise", {"preference": 2, "both_bad": True}, [1, 2])["preference"]
    )


@pytest.mark.parametrize("both_bad", [False, 1, None])
def test_both_bad_is_said_or_left_out(both_bad):
    assert problems_of("pairwise", {"both_bad": both_bad}, [1, 2]) == {
        "both_bad": "must be true or omitted"
    }


def test_an_unranked_rollout_is_named():
    assert problems_of("ranking", {"ranks": {"1": 1}}, [1, 2]) == {
        "ranks.2": "has no rank; rank every rollout shown"
    }


def test_a_foreign_rollout_in_a_ranking_is_named():
    assert problems_of("ranking", {"ranks": {"1": 1, "2": 2, "9": 1}}, [1, 2]) == {
        "ranks.9": "is not one of the rollouts shown"
    }


@pytest.mark.parametrize("rank", [0, 3, True, "1", 1.0])
def test_a_rank_is_one_of_the_places(rank):
    assert problems_of("ranking", {"ranks": {"1": rank, "2": 1}}, [1, 2]) == {
        "ranks.1": "must be a whole number from 1 to 2"
    }


def test_the_best_and_the_worst_are_different_rollouts_that_were_shown():
    assert "must differ" in problems_of("best_worst", {"best": 1, "worst": 1}, [1, 2])["worst"]
    assert "1, 2" in problems_of("best_worst", {"best": 9, "worst": 1}, [1, 2])["best"]
    assert "1, 2" in problems_of("best_worst", {"best": True, "worst": 2}, [1, 2])["best"]


def test_each_scale_is_asked_and_no_other():
    assert problems_of("rubric", {"scales": {"polite": 6, "loud": 1}}) == {
        "scales.polite": "must be a whole number from 1 to 5",
        "scales.right": "is missing: a whole number from 0 to 1",
        "scales.loud": "is not a scale; scales: polite, right",
    }


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"marks": {"3": 1}}, "marks.3"),
        ({"marks": {"01": 1}}, "marks.01"),
        ({"marks": {"0": 2}}, "marks.0"),
        ({"marks": {"0": True}}, "marks.0"),
        ({"marks": {}}, "marks"),
        ({"marks": {"0": 1}, "first_error": 1}, "marks"),
        ({"first_error": 3}, "first_error"),
        ({"first_error": False}, "first_error"),
        ({"first_error": 1, "of": 4}, "of"),
    ],
)
def test_a_wrong_mark_on_a_turn_is_named(raw, field):
    assert list(problems_of("turns", raw)) == [field]


@pytest.mark.parametrize(
    "span",
    [
        {"start": 0, "end": len(TEXT) + 1},
        {"start": -1, "end": 2},
        {"start": 4, "end": 2},
        {"start": 4, "end": 4},
        {"start": True, "end": 4},
        {"start": 0.0, "end": 4},
    ],
)
def test_a_span_out_of_the_text_or_inverted_is_refused(span):
    assert problems_of("spans", {"spans": [span]}) == {
        "spans.0": "start must be before end, and both within the text's 16 characters"
    }


@pytest.mark.parametrize(
    "span", [{"start": 0}, {"start": 0, "end": 1, "colour": "red"}, [0, 1], None]
)
def test_a_span_has_a_start_an_end_and_perhaps_a_note(span):
    assert "object" in problems_of("spans", {"spans": [span]})["spans.0"]


def test_a_text_of_20_000_characters_is_taken_and_one_more_is_not():
    assert len(parse("rewrite", {"text": "x" * 20_000}, [7])["text"]) == 20_000
    assert problems_of("rewrite", {"text": "x" * 20_001}) == {
        "text": "has 20,001 characters; the maximum is 20,000"
    }


@pytest.mark.parametrize("text", ["", " \n\t", None, 5, ["a"]])
def test_a_rewrite_without_words_is_refused(text):
    assert list(problems_of("rewrite", {"text": text})) == ["text"]


def test_a_flag_on_several_names_only_one_that_was_shown():
    assert list(problems_of("flag", {"reason": "empty", "rollout": 9}, [7, 3])) == ["rollout"]


def test_a_critique_of_a_megabyte_is_refused_with_its_length():
    with pytest.raises(BadAnswer) as refused:
        critique_of("y" * 1_000_000, "stars")
    assert refused.value.problems == {"critique": "has 1,000,000 characters; the maximum is 20,000"}


def test_a_critique_may_be_empty_beside_a_number_and_not_alone():
    assert critique_of("", "stars") == ""
    with pytest.raises(BadAnswer):
        critique_of("  ", "critique")


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "\u202eabc\u2066", "مرحبا\u200f"])
def test_words_are_made_storable_exactly_as_model_output_is(text):
    assert parse("rewrite", {"text": text}, [7]) == {"text": storable_output(text)}


def test_controls_of_writing_direction_are_kept():
    assert critique_of("\u202eevil\u202c", "stars") == "\u202eevil\u202c"


@pytest.mark.parametrize(
    ("form", "shown"),
    [("stars", [1, 2]), ("pairwise", [1]), ("pairwise", [1, 1]), ("ranking", []), ("thumbs", [])],
)
def test_a_wrong_number_of_rollouts_is_the_callers_mistake(form, shown):
    with pytest.raises(ValueError, match="different rollouts"):
        FORMS[form].parse({}, shown, RUBRIC)


@pytest.mark.parametrize("form", ["turns", "spans"])
def test_a_form_that_needs_what_was_shown_says_so(form):
    with pytest.raises(ValueError, match="need the"):
        FORMS[form].parse({"first_error": 1} if form == "turns" else {"spans": []}, [1], RUBRIC)
