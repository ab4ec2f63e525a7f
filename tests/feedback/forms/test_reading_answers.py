"""Every form parses its own answers into one canonical form, and reports each invalid field with
what is allowed.
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
def test_valid_answer_is_parsed_into_its_canonical_form(form, shown, raw, canonical):
    assert parse(form, raw, shown) == canonical


@pytest.mark.parametrize(("form", "shown", "raw", "canonical"), GOOD)
def test_canonical_form_is_parsed_unchanged(form, shown, raw, canonical):
    assert parse(form, canonical, shown) == canonical


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "flag"])
def test_every_form_is_a_folder_with_a_template_and_a_script(name):
    form = FORMS[name]
    assert form.name == name and form.asks and form.summary
    assert form.template.nodelist and "export function createForm(" in form.script


def test_comparing_forms_are_those_that_show_two_or_more_replies():
    assert {name for name, form in FORMS.items() if form.min_rollouts > 1} == COMPARES


@pytest.mark.parametrize("form", sorted(FORMS))
def test_unknown_field_is_reported_with_the_known_ones(form):
    shown = list(range(1, FORMS[form].min_rollouts + 1))
    problems = problems_of(form, {"colour": 1}, shown)
    assert list(problems) == ["colour"]
    assert "is not a field of" in problems["colour"]
    assert all(field in problems["colour"] for field in FORMS[form].fields)


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("raw", [None, [], "5", 5, True])
def test_answer_that_is_not_an_object_is_rejected(form, raw):
    assert problems_of(form, raw, list(range(1, FORMS[form].min_rollouts + 1))) == {
        "answer": "must be an object with named fields"
    }


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"critique"}))
def test_empty_answer_is_rejected(form):
    assert problems_of(form, {}, list(range(1, FORMS[form].min_rollouts + 1)))


@pytest.mark.parametrize("stars", [True, 0, 6, 3.0, "3", None, [3], 10**30])
def test_stars_are_whole_numbers_from_1_to_5(stars):
    assert problems_of("stars", {"stars": stars}) == {"stars": "must be a whole number from 1 to 5"}


@pytest.mark.parametrize("up", [1, 0, "true", None])
def test_thumb_must_be_a_boolean(up):
    assert problems_of("thumbs", {"up": up}) == {"up": "must be true (good) or false (bad)"}


@pytest.mark.parametrize("preference", [4, -4, True, "1", 0.5, None, [1, -1]])
def test_preference_outside_the_scale_is_rejected(preference):
    assert problems_of("pairwise", {"preference": preference}, [1, 2]) == {
        "preference": "must be a whole number from -3 to 3"
    }


def test_preference_and_both_bad_cannot_be_combined():
    assert (
        "give either a preference"
        in problems_of("pairwise", {"preference": 2, "both_bad": True}, [1, 2])["preference"]
    )


@pytest.mark.parametrize("both_bad", [False, 1, None])
def test_both_bad_must_be_true_or_omitted(both_bad):
    assert problems_of("pairwise", {"both_bad": both_bad}, [1, 2]) == {
        "both_bad": "must be true or omitted"
    }


def test_unranked_rollout_is_reported():
    assert problems_of("ranking", {"ranks": {"1": 1}}, [1, 2]) == {
        "ranks.2": "has no rank; rank every rollout shown"
    }


def test_rollout_that_was_not_shown_is_reported_in_a_ranking():
    assert problems_of("ranking", {"ranks": {"1": 1, "2": 2, "9": 1}}, [1, 2]) == {
        "ranks.9": "is not one of the rollouts shown"
    }


@pytest.mark.parametrize("rank", [0, 3, True, "1", 1.0])
def test_rank_outside_the_places_is_rejected(rank):
    assert problems_of("ranking", {"ranks": {"1": rank, "2": 1}}, [1, 2]) == {
        "ranks.1": "must be a whole number from 1 to 2"
    }


def test_the_best_and_the_worst_are_different_rollouts_that_were_shown():
    assert "must differ" in problems_of("best_worst", {"best": 1, "worst": 1}, [1, 2])["worst"]
    assert "1, 2" in problems_of("best_worst", {"best": 9, "worst": 1}, [1, 2])["best"]
    assert "1, 2" in problems_of("best_worst", {"best": True, "worst": 2}, [1, 2])["best"]


def test_rubric_answer_needs_exactly_the_configured_scales():
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
def test_invalid_turn_label_is_reported_by_field(raw, field):
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
def test_span_outside_the_text_or_inverted_is_rejected(span):
    assert problems_of("spans", {"spans": [span]}) == {
        "spans.0": "start must be before end, and both within the text's 16 characters"
    }


@pytest.mark.parametrize(
    "span", [{"start": 0}, {"start": 0, "end": 1, "colour": "red"}, [0, 1], None]
)
def test_span_with_invalid_fields_is_rejected(span):
    assert "object" in problems_of("spans", {"spans": [span]})["spans.0"]


def test_rewrite_may_have_at_most_20_000_characters():
    assert len(parse("rewrite", {"text": "x" * 20_000}, [7])["text"]) == 20_000
    assert problems_of("rewrite", {"text": "x" * 20_001}) == {
        "text": "has 20,001 characters; the maximum is 20,000"
    }


@pytest.mark.parametrize("text", ["", " \n\t", None, 5, ["a"]])
def test_empty_rewrite_is_rejected(text):
    assert list(problems_of("rewrite", {"text": text})) == ["text"]


def test_flag_must_refer_to_a_rollout_that_was_shown():
    assert list(problems_of("flag", {"reason": "empty", "rollout": 9}, [7, 3])) == ["rollout"]


def test_critique_of_a_megabyte_is_rejected_with_its_length():
    with pytest.raises(BadAnswer) as refused:
        critique_of("y" * 1_000_000, "stars")
    assert refused.value.problems == {"critique": "has 1,000,000 characters; the maximum is 20,000"}


def test_critique_may_be_empty_only_beside_another_answer():
    assert critique_of("", "stars") == ""
    with pytest.raises(BadAnswer):
        critique_of("  ", "critique")


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "\u202eabc\u2066", "مرحبا\u200f"])
def test_text_is_made_storable_exactly_as_model_output_is(text):
    assert parse("rewrite", {"text": text}, [7]) == {"text": storable_output(text)}


def test_text_direction_controls_are_kept():
    assert critique_of("\u202eevil\u202c", "stars") == "\u202eevil\u202c"


@pytest.mark.parametrize(
    ("form", "shown"),
    [("stars", [1, 2]), ("pairwise", [1]), ("pairwise", [1, 1]), ("ranking", []), ("thumbs", [])],
)
def test_wrong_number_of_rollouts_raises_value_error(form, shown):
    with pytest.raises(ValueError, match="different rollouts"):
        FORMS[form].parse({}, shown, RUBRIC)


@pytest.mark.parametrize("form", ["turns", "spans"])
def test_form_that_needs_the_shown_text_or_turns_raises_without_them(form):
    with pytest.raises(ValueError, match="need the"):
        FORMS[form].parse({"first_error": 1} if form == "turns" else {"spans": []}, [1], RUBRIC)
