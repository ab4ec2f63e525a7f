"""The math scorer: where it finds the answer, what it takes for the same, and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find
from apps.tasksets.generators import find as find_generator
from bench.math_pairs import RULES, Pair, misjudged, pairs
from tests.profiles import tries


def judged(response: str, wanted: object, **options: object) -> Verdict:
    return find("math").judge([RolloutView(response)], TaskView((), {"value": wanted}), options)[0]


def value(said: str, wanted: object, **options: object) -> float | None:
    return judged(f"So it is \\boxed{{{said}}}.", wanted, **options).value


PAIRS = pairs()


@pytest.mark.parametrize("category", RULES)
def test_pairs_made_right_or_wrong_are_judged_so(category):
    made = [pair for pair in PAIRS if pair.category == category]
    assert made and misjudged(made) == []


def test_the_bench_has_enough_pairs_of_both_kinds():
    assert len(PAIRS) >= 300
    assert sum(pair.is_right for pair in PAIRS) > 100 < sum(not pair.is_right for pair in PAIRS)


def test_the_bench_notices_a_misjudged_pair():
    upside_down = Pair("integers", "3", "4", True)
    assert misjudged([upside_down]) == [upside_down]


@pytest.mark.parametrize(
    ("response", "wanted", "found_in"),
    [
        ("First 3, then \\boxed{\\frac{1}{\\sqrt{2}}}", "\\sqrt{2}/2", "boxed"),
        ("so it is\n#### 1,234", "1234", "####"),
        ("#### Step 1: add\n2 + 2\n#### 4", "4", "####"),
        ("<think>\\boxed{3}</think> <answer>4</answer>", "4", "<answer>"),
        ("<answer>It is $x = 4$.</answer>", "4", "<answer>"),
        ("The final answer is 42.", "42", "the last line"),
        ("**Answer:** $\\frac12$", "0.5", "the last line"),
        ("Thus 3 + 4 = 7", "7", "the last line"),
        ("Therefore, the result equals 7.", "7", "the last line"),
        ("So she has 42 apples.", "42", "the last line"),
        ("Answer: (C)", "C", "the last line"),
        ("42", "42", "the last line"),
    ],
)
def test_the_final_answer_is_found_where_it_is_marked(response, wanted, found_in):
    verdict = judged(response, wanted)
    assert (verdict.value, verdict.details["found_in"]) == (1.0, found_in)


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{3} and \\boxed{4}", "\\boxed{4} or <answer>3</answer>", "#### 3\n#### 4", "The answer is 3. The answer is 4.",
        "<answer>3</answer><answer>4</answer>", "\\boxed{4}" + "".join(f" \\boxed{{{n}}}" for n in range(90)),
    ],
)  # fmt: skip
def test_several_different_answers_are_refused(response):
    verdict = judged(response, "4")
    assert verdict.value == 0.0
    assert "several different answers" in verdict.reason


@pytest.mark.parametrize("response", ["\\boxed{1/2} … \\boxed{0.5}", "\\boxed{1/2}\n#### 0.5\n<answer>\\frac12</answer>"])
def test_the_same_answer_may_be_marked_again(response):
    assert judged(response, "50\\%").value == 1.0


@pytest.mark.parametrize(
    "said", ["1/2, 0.5, 50\\%", "3 = 4", "1, 2, 3, 4, 5", "3 or 4", "4 \\text{ or } 5", "\\{1, 2, 3, 4\\}", "2 < 4", "x"]
)
def test_one_answer_in_every_form_or_all_answers_are_none(said):
    assert value(said, "4") == value(said, "1/2") == 0.0


@pytest.mark.parametrize(
    ("said", "wanted", "options", "expected"),
    [
        ("50%", "0.5", {}, 1.0), ("50%", "0.5", {"percent": False}, 0.0), ("50%", "50%", {"percent": False}, 1.0),
        ("5 cm", "5", {"units": False}, 0.0), ("3.1", "3.14", {}, 0.0), ("3.1", "3.14", {"tolerance": 0.02}, 1.0),
    ],
)  # fmt: skip
def test_options_say_what_counts_as_the_same(said, wanted, options, expected):
    assert value(said, wanted, **options) == expected


def test_an_unmarked_answer_does_not_count_where_marks_are_asked_for():
    assert judged("It is 4", "4", strict=True).value == 0.0


@pytest.mark.parametrize("wanted", [5, 5.0, "5", "$5$", "\\boxed{5}", "2 + 3 is\n#### 5", ["6", "5"]])
def test_a_task_may_write_its_answer_in_many_ways(wanted):
    assert value("5", wanted) == 1.0


@pytest.mark.parametrize("wanted", [None, "", True, [], {"a": 1}])
def test_a_task_without_an_answer_gives_no_value_but_a_reason(wanted):
    verdict = judged("\\boxed{5}", wanted)
    assert verdict.value is None and verdict.reason


@pytest.mark.parametrize(
    ("said", "wanted"), [("\\log 100", "2"), ("\\ln 2", "\\log 2"), ("\\frac{1}{3} \\pi r^2 h", "\\pi r^2 h/3"), ("3/4 cup", "3/4")]
)
def test_what_may_be_read_in_two_ways_is_right_in_either(said, wanted):
    assert value(said, wanted) == 1.0


def test_integrals_are_left_to_the_library():
    assert value("\\int x^2 dx", "\\int x \\cdot x \\, dx") == 1.0


@pytest.mark.parametrize(
    "said", ["9**9**9**9", "10^{10^{10}}", "99999999!", "((1+1)^99999)^99999", "2^{-9^{9^9}}", "\\binom{99999999}{5}", "1e999999"]
)
def test_what_would_be_large_is_not_computed(said):
    assert value(said, "5") == 0.0


@settings(max_examples=tries(50), deadline=None)
@given(st.text(alphabet="0123456789+-*/^(){}[]\\,.=<>|!% xyeπ√±abfrctsqpmin&∞", max_size=60))
def test_any_answer_is_judged(said):
    assert value(said, "77/3") in (0.0, 1.0)
    assert judged(said, "77/3").value in (0.0, 1.0)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("25 + 9 is 34.", 1.0),
        ("25 + 9 equals 34.", 1.0),
        ("25 + 9 = 34", 1.0),
        ("So 25 + 9 is 34", 1.0),
        ("25 + 9 is 22.", 0.0),
        ("25 + 9 equals 24", 0.0),
        ("25 + 9", 0.0),
        ("$25+9$", 0.0),
        ("25 \\times 1 + 9", 0.0),
        ("\\boxed{25+9}", 0.0),
        ("\\boxed{43 - 9}", 0.0),
        ("\\boxed{68/2}", 1.0),  # one fraction is how some write a number
    ],
)
def test_a_calculation_is_paid_by_its_result_and_not_by_its_value(said, value):
    assert judged(said, "34").value == value


@pytest.mark.parametrize("number", ["-34", "3.4 \\times 10^1", "3 1/2", "1/2", "34 apples", "+7", "3-4"])
def test_what_is_one_number_or_no_number_is_no_calculation(number):
    """A task whose answer is written so is paid for it."""
    assert judged(f"\\boxed{{{number}}}", number).value == 1.0


def test_the_question_written_again_is_not_paid():
    """Sums of the generator, asked and answered with their own words."""
    for row in find_generator("arithmetic")(200, 0):
        question = row.prompt[0]["content"]
        assert judged(f"\\boxed{{{question}}}", row.answer["value"]).value == 0.0
        assert judged(question, row.answer["value"]).value == 0.0
