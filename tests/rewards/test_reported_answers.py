"""Replies from bug reports about graders, by class, each with its expected value."""

import random

import pytest

from apps.rewards.mathematics import shapes
from apps.rewards.scorers import RolloutView, TaskView, find_scorer

CHOICES = {"value": "C", "choices": {"A": "Paris", "B": "Rome", "C": "Berlin", "D": "Madrid"}}
TWO = {"value": ["A", "C"]}
PARIS = {"reference": "Paris"}


def value(scorer: str, response: str, answer: dict, **options: object) -> float | None:
    task = TaskView((), answer)
    return find_scorer(scorer).judge([RolloutView(response)], task, options)[0].value


REPORTED: dict[str, list[tuple[str, str, dict, float]]] = {
    "several boxes, one of them disowned or cut off": [
        ("math", r"\boxed{x=2}, \boxed{y=1}", {"value": "x=1, y=2"}, 0),
        ("math", r"\boxed{y=2}, \boxed{x=1}", {"value": "x=1, y=2"}, 1),
        ("math", r"\boxed{7} is not the answer", {"value": "7"}, 0),
        ("math", r"\boxed{8} is wrong. So \boxed{7}.", {"value": "7"}, 1),
        ("math", "so \\boxed{7}.\n\nFinal: \\boxed", {"value": "7"}, 0),
        ("math", r"so \boxed{7}, boxed as asked", {"value": "7"}, 1),
    ],
    "the last sentence": [
        ("math", "∴ x = 61", {"value": "61"}, 1),
        ("math", "The answer cannot be 61.", {"value": "61"}, 0),
        ("math", "The answer is 61, not 62.", {"value": "61"}, 1),
        ("math", "The answer is 61, not 62.", {"value": "62"}, 0),
        ("math", "The answer is 61 (not 62).", {"value": "61"}, 1),
        ("math", "I do not know. Maybe 61?", {"value": "61"}, 0),
        ("math", "So Bob has more than 61.", {"value": "61"}, 0),
        ("math", "So Bob has 61 more than Ann.", {"value": "61"}, 1),
        ("math", "The roots are 2 and 3.", {"value": "2,3"}, 1),
        ("math", "The roots are 2 and 4.", {"value": "2,3"}, 0),
        ("math", "Answer: 62\n\nExplanation: 50 + 12 = 61.", {"value": "61"}, 0),
        ("math", "Answer: 61\n\nExplanation: 50 + 11 = 61.", {"value": "61"}, 1),
        ("math", "Answer: 61\n\nNote that 62 would be too many.", {"value": "61"}, 1),
    ],
    "choices beside formulas and explanations": [
        ("choice", "Answer: C. B is a city in Italy.", CHOICES, 1),
        ("choice", "A is true but C is the answer.", CHOICES, 1),
        ("choice", "A. Paris is in France. B. Rome in Italy. The answer is C", CHOICES, 1),
        ("choice", "A. Paris is in France. C. Berlin. The answer is B", CHOICES, 0),
        ("choice", "Ｃ", CHOICES, 1),
        ("choice", "B? No. C.", CHOICES, 1),
        ("choice", r"$A = \pi r^2$, so the answer is C", CHOICES, 1),
        ("choice", r"$C = 2 \pi r$, so the answer is B", CHOICES, 0),
        ("choice", r"With B=3 and D=4 we get \boxed{7}. Answer: C", CHOICES, 1),
        ("choice", "The answer is A. The answer is C.", CHOICES, 0),
        ("choice", "The answer is not C.", CHOICES, 0),
        ("choice", "- A: yes\n- B: no\n- C: yes\n- D: no", TWO, 1),
        ("choice", "- A: yes\n- B: yes\n- C: yes\n- D: no", TWO, 0),
    ],
    "short answers": [
        ("short_answer", "Paris, not London", PARIS, 1),
        ("short_answer", "London, not Paris", PARIS, 0),
        ("short_answer", "Paris (France)", PARIS, 1),
        ("short_answer", "Paris (or London)", PARIS, 0),
        ("short_answer", "It ended in 1945.", {"reference": "1945"}, 1),
        ("short_answer", "It ended before 1945.", {"reference": "1945"}, 0),
        ("short_answer", "From 1939 to 1945.", {"reference": "1945"}, 0),
        ("short_answer", "No, it isn't.", {"reference": "no"}, 1),
        ("short_answer", "No idea.", {"reference": "no"}, 0),
        ("short_answer", "Yes and no.", {"reference": "no"}, 0),
        ("short_answer", "Yes, it is.", {"reference": "no"}, 0),
    ],
    "quantities in words": [
        ("quantity", "36 Newton", {"value": 36, "unit": "N"}, 1),
        ("quantity", "36 Joule", {"value": 36, "unit": "N"}, 0),
        ("quantity", "1:30 h", {"value": 90, "unit": "min"}, 1),
        ("quantity", "1h 30m", {"value": 90, "unit": "min"}, 1),
        ("quantity", "an hour and a half", {"value": 90, "unit": "min"}, 1),
        ("quantity", "two and a half hours", {"value": 90, "unit": "min"}, 0),
        ("quantity", "one and a half hours", {"value": 90, "unit": "min"}, 1),
        ("quantity", "80 kilometres an hour", {"value": 80, "unit": "km/h"}, 1),
        ("quantity", "25 C", {"value": 25, "unit": "°C"}, 1),
        ("quantity", "25 ℃", {"value": 25, "unit": "°C"}, 1),
        ("quantity", "25 ℉", {"value": 25, "unit": "°C"}, 0),
        ("quantity", "25 °C", {"value": 25, "unit": "C"}, 0),
    ],
    "equations with marks": [
        ("chemistry", "H2 + ½O2 → H2O", {"value": "2H2 + O2 -> 2H2O"}, 1),
        ("chemistry", "It is: **2H2 + O2 → 2H2O**", {"value": "2H2 + O2 -> 2H2O"}, 1),
        ("chemistry", "H2 + ¼O2 → H2O", {"value": "2H2 + O2 -> 2H2O"}, 0),
    ],
    "counts and values": [
        ("counting", "There are more than 12 birds.", {"count": 12}, 0),
        ("counting", "There are 12, not 13.", {"count": 12}, 1),
        ("relaxed_number", "14", {"value": ["14"]}, 1),
        ("relaxed_number", "16", {"value": ["14"]}, 0),
        ("relaxed_number", "1 200 000", {"value": 1_200_000}, 1),
        ("relaxed_number", "minus 3", {"value": -3}, 1),
        ("relaxed_number", "minus 3", {"value": 3}, 0),
        ("relaxed_number", "45%", {"value": "45%"}, 1),
        ("relaxed_number", "The country is Brazil.", {"value": "Brazil"}, 1),
        ("relaxed_number", "Chile", {"value": "Brazil"}, 0),
        ("relaxed_number", "Chile or Brazil", {"value": "Brazil"}, 0),
    ],
}
REPORTED["references that are a list as JSON"] = [
    ("math", r"\boxed{4}", {"value": '["4"]'}, 1),
    ("math", r"\boxed{5}", {"value": '["4"]'}, 0),
    ("math", r"\boxed{5}", {"value": '["4", "5"]'}, 1),
    ("math", r"\boxed{[4, 5]}", {"value": "[4, 5]"}, 1),
]
CASES = [(kind, *case) for kind, cases in REPORTED.items() for case in cases]


@pytest.mark.parametrize(("kind", "scorer", "response", "answer", "worth"), CASES)
def test_reply_of_a_reported_class_gets_its_expected_value(kind, scorer, response, answer, worth):
    assert value(scorer, response, answer) == worth, kind


def test_residues_are_equal_by_their_modulus_only():
    drawn = random.Random(3)
    for _ in range(60):
        modulus = drawn.randint(2, 40)
        residue, times = drawn.randint(0, modulus - 1), drawn.randint(-5, 5)
        wanted = {"value": rf"{residue} \pmod{{{modulus}}}"}
        same = rf"\boxed{{{residue + times * modulus} \pmod{{{modulus}}}}}"
        other = rf"\boxed{{{residue + times * modulus + 1} \pmod{{{modulus}}}}}"
        assert (value("math", same, wanted), value("math", other, wanted)) == (1, 0)


def test_named_values_in_separate_boxes_are_never_swapped():
    drawn = random.Random(4)
    for _ in range(60):
        x, y = drawn.sample(range(-9, 10), 2)
        wanted = {"value": f"x={x}, y={y}"}
        boxes = [rf"\boxed{{x={x}}}", rf"\boxed{{y={y}}}"]
        drawn.shuffle(boxes)
        exchanged = rf"\boxed{{x={y}}} and \boxed{{y={x}}}"
        assert value("math", " and ".join(boxes), wanted) == 1
        assert value("math", exchanged, wanted) == 0


@pytest.mark.parametrize(
    "denial",
    [
        "The answer is not {}.",
        "The answer cannot be {}.",
        "The answer isn't {}.",
        "x does not equal {}.",
        "\\boxed{{{}}} is wrong.",
        "Perhaps {}?",
    ],
)
def test_denied_or_guessed_number_gets_no_reward(denial):
    for number in (0, 7, -3, 61, 1_000):
        assert value("math", denial.format(number), {"value": str(number)}) == 0


@pytest.mark.parametrize("sign", ["!", "?", ",", "。", "！"])
def test_loop_of_one_character_is_a_repetition_but_a_ruled_line_is_not(sign):
    assert value("repetition", "So it is " + sign * 200, {}) < -0.9
    assert value("repetition", "A title\n" + "-" * 30 + "\nand its text", {}) == 0


def test_abbreviations_and_point_names_belong_to_no_language():
    scripts = {"scripts": ["cjk"]}
    assert value("language", "设 ABC 为三角形，DNA 是分子", {}, **scripts) == 1
    assert value("language", "设 triangle 为三角形", {}, **scripts) < 0.5


@pytest.mark.parametrize("command", ["pmod{7}", "pmod 7", "mpq", "pmatrix", "pmb{3}", "pmx"])
def test_command_that_begins_like_plus_minus_is_parsed_a_limited_number_of_times(
    command, monkeypatch
):
    calls: list[str] = []
    parse = shapes.parse_shape

    def counted(text: str, depth: int = 0) -> shapes.Shape:
        calls.append(text)
        assert len(calls) < 1_000
        return parse(text, depth)

    monkeypatch.setattr(shapes, "parse_shape", counted)
    shapes.list_meanings(rf"n + 3 \{command}")
