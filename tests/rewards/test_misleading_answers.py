"""Bounds, eras, corrections and opinions of others: only what they actually state is rewarded."""

import pytest

from apps.rewards.corrections import last_statement, without_corrected
from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.rewards.years import in_one_form

BOUNDS = (
    *("> {}", "≥ {}", "at least {}", "at most {}", "up to {}", "no fewer than {}", "over {}"),
    *("mindestens {}", "höchstens {}", "au moins {}", "al menos {}", "至少{}", "не менее {}"),
    *("少なくとも{}", "\\boxed{{\\text{{at least }}{}}}", "{}+", "{} or more"),
)
AFTER_CHRIST = ("1945 AD", "A.D. 1945", "1945 CE", "1945 n. Chr.", "1945 ap. J.-C.", "公元1945年")
BEFORE_CHRIST = ("44 BCE", "44 B.C.", "44 v. Chr.", "44 av. J.-C.", "44 до н. э.", "公元前44年")
OTHER_YEARS = ("by 1945", "before 1945", "since 1945", "vor 1945", "avant 1945", "до 1945", "1945s")
CORRECTED = (
    *("It is Lyon. No, it is Paris.", "Lyon... no, Paris.", "Lyon, I mean Paris."),
    *("The answer is Lyon. Actually, it's Paris.", "Es ist Lyon. Nein, es ist Paris."),
    *("C'est Lyon. Non, c'est Paris.", "Es Lyon. No, es Paris.", "Это Лион. Нет, это Paris."),
)
OF_OTHERS = (
    "Most pick C, but the right answer is B.",
    "Many people choose C, but it is B.",
    "Students often answer C; the correct answer is B.",
    "C is a common answer, but B is correct.",
    "At first I chose C, but the answer is B.",
    "It seems like C, but actually it is B.",
)
WHEN = "In which year was it?"


def worth(scorer: str, answer: dict, reply: str, question: str = "") -> float | None:
    asked = [{"role": "user", "content": question}] if question else ()
    return find_scorer(scorer).judge([RolloutView(reply)], TaskView(asked, answer))[0].value


@pytest.mark.parametrize("bound", BOUNDS)
def test_bound_is_not_a_value(bound):
    for scorer in ("math", "counting", "relaxed_number"):
        assert worth(scorer, {"value": 12}, bound.format(12)) == 0
    if bound[-1] == "}" and "boxed" not in bound:
        assert worth("quantity", {"value": 36, "unit": "N"}, bound.format("36 N")) == 0


def test_bound_is_the_answer_to_a_question_for_the_least():
    question = "What is the least number of coins?"
    assert worth("counting", {"value": 12}, "at least 12", question) == 1
    assert worth("math", {"value": "12"}, "We need at least 12.", question) == 1


def test_percentage_equals_neither_a_count_nor_a_number_unless_asked_for():
    assert worth("counting", {"value": 12}, "12%") == 0
    assert worth("math", {"value": "12"}, "12%") == 0
    assert worth("math", {"value": "12"}, "12%", "Wie viel Prozent sind das?") == 1
    assert worth("math", {"value": "0.12"}, "12%") == 1


@pytest.mark.parametrize("scorer", ["short_answer", "math"])
def test_year_may_have_its_era(scorer):
    for year in AFTER_CHRIST:
        assert worth(scorer, {"value": "1945"}, year, WHEN) == 1
        assert worth(scorer, {"value": "1946"}, year, WHEN) == 0
    for year in BEFORE_CHRIST:
        assert in_one_form(year) == "44 BC"
        assert worth(scorer, {"value": "44 BC"}, year, WHEN) == 1
        assert worth(scorer, {"value": "44"}, year, WHEN) == 0


@pytest.mark.parametrize("scorer", ["short_answer", "math", "relaxed_number"])
def test_year_with_a_qualifier_is_a_different_time(scorer):
    for year in OTHER_YEARS:
        assert worth(scorer, {"value": "1945"}, year, WHEN) == 0


@pytest.mark.parametrize("reply", CORRECTED)
def test_last_statement_of_a_correction_is_the_answer(reply):
    for scorer in ("short_answer", "math"):
        assert worth(scorer, {"value": "Paris"}, reply) == 1
        assert worth(scorer, {"value": "Lyon"}, reply) == 0


def test_sentence_that_begins_with_no_retracts_nothing():
    text = "It is negative. No solution exists."
    assert last_statement(text) == without_corrected(text) == text


@pytest.mark.parametrize("reply", OF_OTHERS)
def test_choice_attributed_to_others_is_not_the_answer(reply):
    assert worth("choice", {"value": "B"}, reply) == 1
    assert worth("choice", {"value": "C"}, reply) == 0


@pytest.mark.parametrize("text", ["at least " * 20_000, "no, " * 40_000, "most pick " * 20_000])
def test_repeated_words_of_corrections_and_bounds_are_read_quickly(text):
    assert isinstance(last_statement(text), str)
    assert worth("choice", {"value": "B"}, text) == 0
    assert worth("counting", {"value": 12}, text) == 0


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        ("6 × 7 = **42**", 1),
        ("So 6·7 = **42**.", 1),
        ("# 42", 1),
        ("6 × 7 = **41**", 0),
        ("6 × 7 ≠ **42**", 0),
        ("40 + **2**", 0),
    ],
)
def test_result_may_be_bold_or_a_heading(reply, paid):
    assert worth("math", {"value": "42"}, reply) == paid


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        ("The lines meet at (1, 2).", 1),
        ("The point is (1, 2).", 1),
        ("They meet at (1, 2) or (2, 1).", 0),
        ("They never meet at (1, 2).", 0),
        ("The answer is not (1, 2).", 0),
    ],
)
def test_point_is_read_at_the_end_of_a_sentence(reply, paid):
    assert worth("math", {"value": "(1, 2)"}, reply) == paid


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        ("I believe it's Paris.", 1),
        ("I am quite sure that it is Paris.", 1),
        ("It must be Paris.", 1),
        ("Definitely Paris.", 1),
        ("It should be Paris, but it is Lyon.", 0),
        ("I'm not sure it is Paris.", 0),
        ("It must not be Paris.", 0),
        ("Definitely not Paris.", 0),
    ],
)
def test_confidence_of_the_writer_does_not_change_the_answer(reply, paid):
    assert worth("short_answer", {"value": "Paris"}, reply, "What is the capital?") == paid


@pytest.mark.parametrize(
    "reply", ["Es sind drei.", "Es gibt drei.", "Il y en a trois.", "Hay tres."]
)
def test_counts_are_read_in_other_languages(reply):
    assert worth("counting", {"count": 3}, reply) == 1
    assert worth("counting", {"count": 4}, reply) == 0


@pytest.mark.parametrize(
    ("answer", "reply", "question", "paid"),
    [
        ("18", "She makes $18.", "How many dollars does she make?", 1),
        ("18", "She makes €18.", "How many dollars does she make?", 0),
        ("18", "18 cents", "How many dollars does she make?", 0),
        ("18", "18 cents", "At 2 cents each, how much do 9 cost?", 1),
        ("18", "18 pounds", "If $3x = 54$, how many lb is $x$?", 1),
        ("18", "€18", "If $x = 18$, what is the price?", 1),
        ("18", "\\$18", "Eggs cost \\$2 each. How much do 9 cost?", 1),
        ("18", "18 euros", "Eggs cost $2 each. How much do 9 cost?", 0),
        ("18", "nearly $18", "How many dollars does she make?", 0),
        ("18", "She doesn't make $18.", "How many dollars does she make?", 0),
        ("18", "Ella gana 18 dólares.", "How many dollars does she make?", 1),
        ("x^2+2x+1", "(x+1)^2 = x^2+2x+1", "Expand (x+1)^2.", 1),
        ("x^2+2x+1", "x(x+2)+1", "Expand (x+1)^2.", 0),
        ("x^2+2x+1", "(x+1)(x+1)", "Expand (x+1)^2.", 0),
        ("(x-1)(x+2)", "x^2+x-2 = (x+2)(x-1)", "Factor x^2+x-2.", 1),
        ("(x-1)(x+2)", "x(x+1)-2", "Factor x^2+x-2.", 0),
        ("(x-1)(x+2)", "x^2+x-2 = (x+2)(x+1)", "Factor x^2+x-2.", 0),
    ],
)
def test_answer_must_have_the_form_and_currency_of_the_task(answer, reply, question, paid):
    assert worth("math", {"value": answer}, reply, question) == paid


@pytest.mark.parametrize(
    ("reply", "paid"),
    [("blue", 1), ("The answer is blue.", 1), ("red", 0), ("not blue", 0), ("blue or red", 0)],
)
def test_choice_may_be_given_by_its_words_in_the_question(reply, paid):
    question = "Which is it?\nA. red\nB. green\nC. blue"
    assert worth("choice", {"value": "C"}, reply, question) == paid
