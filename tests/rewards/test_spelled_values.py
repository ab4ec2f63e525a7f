"""Answers that are one value in English words, compared with references in figures."""

import random

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.rewards.spelled_values import in_figures


def value(scorer: str, response: str, wanted: str | float) -> float | None:
    answer = {"count": wanted} if scorer == "counting" else {"value": wanted}
    return find_scorer(scorer).judge([RolloutView(response)], TaskView((), answer))[0].value


# (words, the reference, the reward)
VALUES = [
    ("one half", "0.5", 1),
    ("one half", "1/2", 1),
    ("One-half", r"\frac12", 1),
    ("a half", "50%", 1),
    ("half", "1/2", 1),
    ("one half", "2", 0),
    ("one half", "1", 0),
    ("one half", "12", 0),
    ("two thirds", "2/3", 1),
    ("two-thirds", r"\frac{2}{3}", 1),
    ("two thirds", "2", 0),
    ("two thirds", "3", 0),
    ("two thirds", "3/2", 0),
    ("two thirds", "23", 0),
    ("two thirds", "-2/3", 0),
    ("minus two thirds", "-2/3", 1),
    ("negative two", "-2", 1),
    ("negative two", "2", 0),
    ("three quarters", "0.75", 1),
    ("three fourths", "3/4", 1),
    ("three quarters", "3", 0),
    ("three halves", "1.5", 1),
    ("two and a half", "5/2", 1),
    ("two-and-a-half", "2.5", 1),
    ("two and a half", "2", 0),
    ("two and a half", "1", 0),
    ("one and three quarters", "1.75", 1),
    ("five sixths", "5/6", 1),
    ("twenty-two sevenths", "22/7", 1),
    ("seven twelfths", "7/12", 1),
    ("one twenty-fifth", "0.04", 1),
    ("three hundredths", "0.03", 1),
    ("sixty-four hundredths", "0.64", 1),
    ("three point one four", "3.14", 1),
    ("point five", "0.5", 1),
    ("three point one four", "314", 0),
    ("fifty percent", "50%", 1),
    ("fifty percent", "0.5", 1),
    ("fifty percent", "5", 0),
    ("a dozen", "12", 1),
    ("half a dozen", "6", 1),
    ("half a dozen", "1/2", 0),
    ("twenty-five", "25", 1),
    ("twenty five", "25", 1),
    ("one hundred and twenty", "120", 1),
    # Words that are no value, or have more than one meaning.
    ("third", "1/3", 0),
    ("the third", "3", 0),
    ("twenty-fifth", "1/25", 0),
    ("twenty-fifths", "4", 0),
    ("one second", "1/2", 0),
    ("one thirds", "1/3", 0),
    ("two third", "2/3", 0),
    ("a dozen and a half", "12.5", 0),
    ("one hundred and two fifths", "100.4", 0),
    ("one hundred and two fifths", "20.4", 0),
    ("two hundred thousandths", "0.2", 0),
    ("two and three halves", "3.5", 0),
    ("one half of x", "1/2", 0),
    ("half of the cake", "1/2", 0),
    ("not one half", "1/2", 0),
    ("one half or one third", "1/2", 0),
    ("one half, one third", "1/2", 0),
    ("point", "0", 0),
]
LEFT_AS_THEY_ARE = ["", "half past", "a", "minus", "point", "third", "halves", "and a half", "ab"]
# Replies in which numbers are searched: (scorer, reply, number, reward).
IN_SENTENCES = [
    ("relaxed_number", "one half", 0.5, 1),
    ("relaxed_number", "The answer is two thirds.", 2 / 3, 1),
    ("relaxed_number", "two thirds", 2, 0),
    ("relaxed_number", "minus two", -2, 1),
    ("relaxed_number", "negative two", 2, 0),
    ("relaxed_number", "Two thirds of them are red.", 2, 0),
    ("relaxed_number", "There are three fifths left.", 3, 0),
    ("relaxed_number", "There are three quarters on the table.", 3, 1),
    ("counting", "one half", 1, 0),
    ("counting", "two thirds", 2, 0),
    ("counting", "a dozen", 12, 1),
    ("counting", "two", 2, 1),
    ("math", "She ate 2 thirds of the cake.", "2", 0),
    ("math", "It is half.", "1/2", 1),
    ("math", r"The probability is \boxed{\text{one third}}.", "1/3", 1),
    ("quantity", "half an hour", "30 min", 1),
    ("quantity", "half an hour", "60 min", 0),
    ("quantity", "three quarters of an hour", "45 min", 1),
    ("quantity", "three quarters of an hour", "3 h", 0),
    ("quantity", r"\boxed{\text{two and a half metres}}", "2.5 m", 1),
    ("quantity", "two thirds", "2/3", 1),
    ("quantity", "one second", "1 s", 1),
    ("quantity", "one third second", "1 s", 0),
]
ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
PARTS = [
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]


@pytest.mark.parametrize(("words", "wanted", "worth"), VALUES)
def test_number_words_get_the_reward_of_their_figures(words, wanted, worth):
    said = (rf"\boxed{{{words}}}", rf"\boxed{{\text{{{words}}}}}", f"The answer is {words}.")
    assert [value("math", one, wanted) for one in said] == [worth] * 3


@pytest.mark.parametrize(("scorer", "said", "wanted", "worth"), IN_SENTENCES)
def test_fraction_word_never_equals_the_number_it_contains(scorer, said, wanted, worth):
    assert value(scorer, said, wanted) == worth


def test_fraction_in_words_gets_the_reward_of_its_figures():
    drawn = random.Random(5)
    for _ in range(150):
        top, part = drawn.randint(2, 12), drawn.randint(3, 12)
        words = f"{ONES[top]} {PARTS[part - 3]}s"
        assert in_figures(words) == rf"\frac{{{top}}}{{{part}}}"
        wanted = f"{drawn.randint(1, 12)}/{drawn.randint(1, 12)}"
        figures = value("math", rf"\boxed{{{top}/{part}}}", wanted)
        assert value("math", rf"\boxed{{\text{{{words}}}}}", wanted) == figures, (words, wanted)


@pytest.mark.parametrize("text", LEFT_AS_THEY_ARE)
def test_other_words_are_not_converted_to_figures(text):
    assert in_figures(text) == ""
