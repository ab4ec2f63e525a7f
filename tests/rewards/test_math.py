"""The math scorer: where it finds the answer, which answers are equal, and which are refused."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer
from apps.tasksets.generators import find_generator as find_generator
from bench.answer_pairs import Pair, draw_pairs
from bench.graders import Figures, Judged, misjudged
from tests.profiles import tries
from tests.rewards.answers import ANSWERS
from tests.rewards.more_answers import MORE_ANSWERS


def judged(response: str, wanted: object, **options: object) -> Verdict:
    return find_scorer("math").judge(
        [RolloutView(response)], TaskView((), {"value": wanted}), options
    )[0]


def value(said: str, wanted: object, **options: object) -> float | None:
    return judged(f"So it is \\boxed{{{said}}}.", wanted, **options).value


PAIRS = draw_pairs()


@pytest.mark.parametrize(
    ("scorer", "category"), sorted({(pair.scorer, pair.category) for pair in PAIRS})
)
def test_generated_right_and_wrong_pairs_are_judged_correctly(scorer, category):
    made = [pair for pair in PAIRS if (pair.scorer, pair.category) == (scorer, category)]
    assert made and misjudged(made) == []


def test_bench_has_enough_right_and_wrong_pairs():
    assert len(PAIRS) >= 1_000
    assert sum(pair.is_right for pair in PAIRS) > 400 < sum(not pair.is_right for pair in PAIRS)


def test_bench_reports_and_counts_misjudged_pairs():
    upside_down = Pair("math", "integers", "3", r"\boxed{4}", True)
    assert misjudged([upside_down]) == [upside_down]
    figures = Figures.of([Judged(upside_down, 0.0, 0.001), Judged(upside_down, None, 0.001)])
    assert (figures.false_refusals, figures.nulls, figures.accuracy) == (1, 1, 0.0)


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
def test_final_answer_is_found_where_it_is_marked(response, wanted, found_in):
    verdict = judged(response, wanted)
    assert (verdict.value, verdict.details["found_in"]) == (1.0, found_in)


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{3} and \\boxed{4}",
        "\\boxed{4} or <answer>3</answer>",
        "#### 3\n#### 4",
        "The answer is 3. The answer is 4.",
        "<answer>3</answer><answer>4</answer>",
        "\\boxed{4}" + "".join(f" \\boxed{{{n}}}" for n in range(90)),
    ],
)
def test_several_different_answers_are_refused(response):
    verdict = judged(response, "4")
    assert verdict.value == 0.0
    assert "several different answers" in verdict.reason


@pytest.mark.parametrize(
    "response", ["\\boxed{1/2} … \\boxed{0.5}", "\\boxed{1/2}\n#### 0.5\n<answer>\\frac12</answer>"]
)
def test_same_answer_may_be_marked_twice(response):
    assert judged(response, "50\\%").value == 1.0


@pytest.mark.parametrize(
    "said",
    [
        "1/2, 0.5, 50\\%",
        "3 = 4",
        "1, 2, 3, 4, 5",
        "3 or 4",
        "4 \\text{ or } 5",
        "\\{1, 2, 3, 4\\}",
        "2 < 4",
        "x",
    ],
)
def test_reply_with_several_possible_answers_gets_no_reward(said):
    assert value(said, "4") == value(said, "1/2") == 0.0


@pytest.mark.parametrize(
    ("said", "wanted", "options", "expected"),
    [
        ("50%", "0.5", {}, 1.0),
        ("50%", "0.5", {"percent": False}, 0.0),
        ("50%", "50%", {"percent": False}, 1.0),
        ("5 cm", "5", {"units": False}, 0.0),
        ("3.1", "3.14", {}, 0.0),
        ("3.1", "3.14", {"tolerance": 0.02}, 1.0),
    ],
)
def test_options_decide_which_answers_are_equal(said, wanted, options, expected):
    assert value(said, wanted, **options) == expected


def test_unmarked_answer_gets_no_reward_in_strict_mode():
    assert judged("It is 4", "4", strict=True).value == 0.0


@pytest.mark.parametrize(
    "wanted", [5, 5.0, "5", "$5$", "\\boxed{5}", "2 + 3 is\n#### 5", ["6", "5"]]
)
def test_task_may_write_its_answer_in_many_ways(wanted):
    assert value("5", wanted) == 1.0


@pytest.mark.parametrize("wanted", [None, "", True, [], {"a": 1}])
def test_task_without_an_answer_gives_no_value_but_a_reason(wanted):
    verdict = judged("\\boxed{5}", wanted)
    assert verdict.value is None and verdict.reason


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("2", "\\log 100"),
        ("\\ln 2", "\\log 2"),
        ("\\frac{1}{3} \\pi r^2 h", "\\pi r^2 h/3"),
        ("3/4 cup", "3/4"),
    ],
)
def test_ambiguous_answer_is_right_in_either_reading(said, wanted):
    assert value(said, wanted) == 1.0


def test_integrals_are_compared_by_the_library():
    assert value("\\int x^2 dx", "\\int x \\cdot x \\, dx") == 1.0


@pytest.mark.parametrize(
    "said",
    [
        "9**9**9**9",
        "10^{10^{10}}",
        "99999999!",
        "((1+1)^99999)^99999",
        "2^{-9^{9^9}}",
        "\\binom{99999999}{5}",
        "1e999999",
    ],
)
def test_expressions_with_a_huge_value_are_not_computed(said):
    assert value(said, "5") == 0.0


@settings(max_examples=tries(50), deadline=None)
@given(st.text(alphabet="0123456789+-*/^(){}[]\\,.=<>|!% xyeπ√±abfrctsqpmin&∞", max_size=60))
def test_any_answer_gets_zero_or_one(said):
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
        ("\\boxed{68/2}", 0.0),
    ],
)
def test_calculation_is_paid_only_if_it_states_its_result(said, value):
    assert judged(said, "34").value == value


@pytest.mark.parametrize(
    "number", ["-34", "3.4 \\times 10^1", "3 1/2", "1/2", "34 apples", "+7", "3-4"]
)
def test_single_values_and_non_numbers_are_not_calculations(number):
    """A reply that repeats the reference answer in this notation gets the full reward."""
    assert judged(f"\\boxed{{{number}}}", number).value == 1.0


FORMULA = re.compile(r"[-+*/^=<>%(]|\\\\le|times")


def formulas_of(question: str) -> list[str]:
    """Return each word sequence of the question with an operator, a relation or a bracket."""
    words = question.replace("\\boxed{}", "").split()
    runs = {
        " ".join(words[start:end]).rstrip(".,?")
        for start in range(len(words))
        for end in range(start + 1, min(len(words), start + 14) + 1)
    }
    return sorted(run for run in runs if FORMULA.search(run) and not run.endswith(" times"))


@pytest.mark.parametrize("name", ["math", "sums", "arithmetic", "k12"])
def test_generated_questions_pay_their_answer_but_none_of_their_own_formulas(name):
    for row in find_generator(name)(24, 5):
        if row.meta.get("scorer", "math") != "math":
            continue
        task = TaskView(row.prompt, row.answer, row.domain, row.meta)
        for formula in [*formulas_of(row.prompt[0]["content"]), row.prompt[0]["content"]]:
            said = RolloutView(f"\\boxed{{{formula}}}")
            assert find_scorer("math").judge([said], task)[0].value == 0.0, (row, formula)
        right = RolloutView(f"\\boxed{{{row.answer['value']}}}")
        assert find_scorer("math").judge([right], task)[0].value == 1.0


BY_CLASS = ANSWERS | MORE_ANSWERS


@pytest.mark.parametrize("name", BY_CLASS)
def test_answers_of_each_class_get_their_expected_value(name):
    judged_otherwise = [
        (said, wanted) for said, wanted, worth in BY_CLASS[name] if value(said, wanted) != worth
    ]
    assert judged_otherwise == []


ASKED = [  # question, reference, boxed, worth
    ("What is 3/4 as a decimal?", "0.75", "3/4", 0),
    ("What is 3/4 as a decimal?", "0.75", "0.75", 1),
    ("Which is larger, 3/4 or 2/3?", "3/4", "3/4", 1),
    ("Convert 0.75 to a fraction.", "3/4", "0.75", 0),
    ("What percent of 50 is 10?", "20", "20%", 1),
    ("What is 20% of 100?", "20", "20%", 0),
    ("How many km is 5000 m?", "5 km", "5000 m", 0),
    ("How many km is 5000 m?", "5 km", "5 km", 1),
    (r"Compute $43\cdot 47$.", "2021", "47*43", 0),
    ("Solve $3x+5=23$.", "x=6", "23=3x+5", 0),
    ("Factor $x^2-9$.", "(x-3)(x+3)", "-9+x^2", 0),
    ("Factor $x^2-9$.", "(x-3)(x+3)", "(x+3)(x-3)", 1),
    (r"Simplify $\frac{6}{8}$.", "3/4", r"\frac{6}{8}", 0),
    (r"Compute $\frac{84}{4}$.", "21", r"\frac{84}{4}", 0),
    ("What is 12/4?", "3", "12/4", 0),
    (r"Simplify $\sqrt{12}$.", r"2\sqrt3", r"\sqrt{12}", 0),
    (r"Evaluate $\sum_{k=1}^{10} k$", "55", r"\sum_{k=1}^{10} k", 0),
    ("Write $101_2$ in base 10.", "5", "101_2", 0),
    ("How far in meters is 3 km?", "3000 m", "3 km", 0),
]


@pytest.mark.parametrize(("question", "wanted", "said", "worth"), ASKED)
def test_text_copied_from_the_question_is_not_an_answer(question, wanted, said, worth):
    task = TaskView([{"role": "user", "content": question}], {"value": wanted})
    verdict = find_scorer("math").judge([RolloutView(f"\\boxed{{{said}}}")], task)[0]
    assert verdict.value == worth


def test_two_unparsable_formulas_get_no_value_unless_they_are_equal():
    verdict = judged(r"\boxed{a \star b \prec c}", r"a \prec b \star c")
    assert verdict.value is None and "neither" in verdict.reason
    assert value(r"a \star b \prec c", r"a \star b \prec c") == 1.0
    assert value("7", r"a \prec b \star c") == 0.0
