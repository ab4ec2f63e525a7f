"""School subjects: choices, quantities, chemistry and short answers."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer


def judged(scorer: str, response: str, answer: object, **options: object) -> Verdict:
    answer = answer if isinstance(answer, dict) else {"value": answer}
    return find_scorer(scorer).judge([RolloutView(response)], TaskView((), answer), options)[0]


@pytest.mark.parametrize(
    "response",
    [
        "The answer is B.",
        "\\boxed{B}",
        "(B)",
        "B) Paris",
        "**B**",
        "b",
        "\\boxed{\\text{B}}",
        "<answer>B</answer>",
        "So it is option B.",
        "The correct option is B because A is wrong.",
        "The answer is B: Paris",
        "Paris",
        "<think>A? C?</think>B",
    ],
)
def test_right_letter_is_found_in_many_phrasings(response):
    assert (
        judged("choice", response, {"value": "B", "choices": ["Rome", "Paris", "Oslo"]}).value
        == 1.0
    )


@pytest.mark.parametrize(
    "response",
    [
        "A",
        "A or B",
        "A, B, C, D",
        "ABCD",
        "B. Paris\nC. Oslo",
        "<answer>B</answer><answer>C</answer>",
        "\\boxed{A} \\boxed{B}",
        "",
        "I see a dog",
    ],
)
def test_other_or_several_letters_get_no_reward(response):
    assert judged("choice", response, "B").value == 0.0


@pytest.mark.parametrize(
    ("response", "partial", "expected"),
    [
        ("A and C", False, 1.0),
        ("\\boxed{A, C}", False, 1.0),
        ("AC", False, 1.0),
        ("c, a", False, 1.0),
        ("A", False, 0.0),
        ("A", True, 0.5),
        ("A, B", True, 0.0),
        ("A, C, D", True, 0.5),
        ("A, B, C, D", True, 0.0),
        ("B, D", True, 0.0),
    ],
)
@pytest.mark.parametrize("right", [["A", "C"], "A, C", "AC"])
def test_wrong_letters_lower_the_reward_of_a_multiple_choice(response, partial, expected, right):
    assert judged("choice", response, right, partial=partial).value == expected


@pytest.mark.parametrize(
    ("response", "wanted", "options", "expected"),
    [
        ("9.8 m/s^2", {"value": 9.8, "unit": "m/s^2"}, {}, 1.0),
        ("980 cm/s^2", "9.8 m/s^2", {}, 1.0),
        ("36 km/h", "10 m/s", {}, 1.0),
        ("The answer is 9.81 m s^-2.", "9.8 m/s^2", {}, 1.0),
        ("\\boxed{3.0 \\times 10^8 \\text{ m/s}}", "3e8 m/s", {}, 1.0),
        ("25 °C", "298.15 K", {}, 1.0),
        ("1,200 J", "1.2 kJ", {}, 1.0),
        ("5 N·m", "5 J", {}, 1.0),
        ("12 \\frac{m}{s}", "12 m/s", {}, 1.0),
        ("The speed is 3.6 km/h.", "1 m/s", {}, 1.0),
        ("We need 12,000 J of heat", "12 kJ", {}, 1.0),
        ("It is 20 degrees hot", "20 degree", {}, 1.0),
        ("It weighs 5 kg and 3 g", "5 kg", {}, 0.0),
        ("F = 20 N", "20 N", {}, 1.0),
        ("5 ohms", "5 \\Omega", {}, 1.0),
        ("3", 3, {}, 1.0),
        ("9.8 kg", "9.8 m/s^2", {}, 0.0),
        ("-3 m", "3 m", {}, 0.0),
        ("5 m and 6 m", "5 m", {}, 0.0),
        ("\\boxed{5 m} \\boxed{6 m}", "6 m", {}, 0.0),
        ("9.8", "9.8 m/s^2", {}, 0.0),
        ("9.8", "9.8 m/s^2", {"unit": "optional"}, 1.0),
        ("10.2 m", "10 m", {}, 0.0),
        ("10.2 m", "10 m", {"tolerance": 0.02}, 1.0),
        ("10.2 m", "10 m", {"absolute": 0.3}, 1.0),
        ("9.80 m", "9.8 m", {"significant_figures": 3}, 1.0),
        ("9.8 m", "9.8 m", {"significant_figures": 3}, 0.0),
        ("9.81 m", "9.8 m", {"significant_figures": 3}, 0.0),
        ("1200 m", "1234 m", {"significant_figures": 2}, 1.0),
        ("1.2 km", "1234 m", {"significant_figures": 2}, 1.0),
    ],
)
def test_quantity_is_right_in_any_unit_of_its_kind_within_the_tolerance(
    response, wanted, options, expected
):
    assert judged("quantity", response, wanted, **options).value == expected


@pytest.mark.parametrize(
    "unit",
    [
        "m^99999",
        "m**9**9**9",
        "(((((((((m",
        "__import__('os')",
        "m" * 5_000,
        "kilo" * 9 + "m",
        "^",
        "m/0",
        "9m",
    ],
)
def test_hostile_units_get_no_reward(unit):
    assert judged("quantity", f"1 {unit}", "1 m").value == 0.0


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("\\boxed{H_2O}", "H2O"),
        ("H₂O", "H2O"),
        ("Ca(OH)2", "Ca(OH)_2"),
        ("SO4^{2-}", "SO42-"),
        ("SO₄²⁻", "SO4^2-"),
        ("Ca2+", "Ca^{2+}"),
        ("NH4+", "NH_4^+"),
        ("CuSO4·5H2O", "CuSO_4 \\cdot 5H_2O"),
        ("CuSO4.5H2O", "CuSO4·5H2O"),
        ("NaCl", "NaCl(s)"),
        ("The answer is H2SO4.", "\\ce{H2SO4}"),
        ("2H2 + O2 -> 2H2O", "2H2 + O2 -> 2H2O"),
        ("4H2+2O2->4H2O", "2H2 + O2 -> 2H2O"),
        ("O2 + 2H2 = 2H2O", "2H2 + O2 -> 2H2O"),
        ("2 Al + 3 Cl2 = 2 AlCl3", "2Al + 3Cl2 -> 2AlCl3"),
        ("H2 + 1/2 O2 -> H2O", "2H2 + O2 -> 2H2O"),
        ("The balanced equation is: CH4 + 2O2 → CO2 + 2H2O", "CH4 + 2O2 -> CO2 + 2H2O"),
        ("Ag+ + Cl- -> AgCl(s)", "Ag^+ + Cl^- \\rightarrow AgCl"),
        ("Fe2+ -> Fe3+ + e-", "Fe^{2+} \\to Fe^{3+} + e^-"),
        ("MnO4- + 8H+ + 5e- -> Mn2+ + 4H2O", "MnO_4^- + 8H^+ + 5e^- -> Mn^{2+} + 4H_2O"),
    ],
)
def test_same_chemistry_is_equal_in_every_notation(said, wanted):
    assert judged("chemistry", said, wanted).value == 1.0


@pytest.mark.parametrize(
    ("said", "wanted", "reason"),
    [
        ("H2O2", "H2O", "other atoms"),
        ("CO", "Co", "other atoms"),
        ("CaOH2", "Ca(OH)2", "other atoms"),
        ("CuSO4", "CuSO4·5H2O", "other atoms"),
        ("SO4-", "SO42-", "another charge"),
        ("NaCl(aq)", "NaCl(s)", "another state"),
        ("Xx2", "H2", "is not an element"),
        ("H999999999999", "H2", "is not a number of atoms"),
        ("((((((((H", "H2", "brackets"),
        ("", "H2O", "no formula"),
        ("H2+O2->H2O", "2H2 + O2 -> 2H2O", "not balanced: O"),
        ("2H2O -> 2H2 + O2", "2H2 + O2 -> 2H2O", "another reaction"),
        ("2H2 + O2 + N2 -> 2H2O + N2", "2H2 + O2 -> 2H2O", "another reaction"),
        ("0H2 -> 0O2", "2H2 + O2 -> 2H2O", "none of something"),
        ("Fe2+ -> Fe3+", "Fe2+ -> Fe3+ + e-", "not balanced: charge"),
        ("2H2 + O2", "2H2 + O2 -> 2H2O", "not one equation"),
    ],
)
def test_different_chemistry_gets_no_reward_with_a_reason(said, wanted, reason):
    verdict = judged("chemistry", f"\\boxed{{{said}}}", wanted)
    assert verdict.value == 0.0 and reason in verdict.reason


def test_options_require_smallest_coefficients_and_states():
    assert judged("chemistry", "4H2 + 2O2 -> 4H2O", "2H2 + O2 -> 2H2O", smallest=True).value == 0.0
    assert judged("chemistry", "NaCl", "NaCl(s)", states=True).value == 0.0


SCHEME = {
    "ideas": [
        {"any_of": ["light energy", "sunlight"], "points": 2},
        {"any_of": ["carbon dioxide", "CO2"], "points": 1},
        "glucose",
    ],
    "reference": ["Plants use light energy to turn carbon dioxide into glucose."],
    "wrong": ["moonlight"],
}


@pytest.mark.parametrize(
    ("response", "expected", "deterministic"),
    [
        ("Plants use sunlight to make glucose from CO2.", 1.0, True),
        ("plants use light energy to turn carbon dioxide into glucose", 1.0, True),
        ("They use sunlight.", 0.5, False),
        ("They do not use sunlight but make glucose from carbon dioxide", 0.5, True),
        ("They don't need any sunlight.", 0.0, False),
        ("Sunlight makes glucose from CO2. It doesn't use sunlight.", 0.5, True),
        ("Sunlight, carbon dioxide, glucose and moonlight", 0.75, True),
        ("", 0.0, True),
        ("sunlight glucose CO2 " * 200, 0.0, True),
        ("Leaves eat.", 0.0, False),
    ],
)
def test_key_ideas_earn_their_points_unless_denied(response, expected, deterministic):
    verdict = judged("short_answer", response, SCHEME)
    assert (verdict.value, verdict.details["deterministic"]) == (expected, deterministic)


def test_undecided_answer_gets_no_value_if_the_option_says_so():
    verdict = judged("short_answer", "They use sunlight.", SCHEME, undecided="null")
    assert verdict.value is None and not verdict.details["deterministic"]


def test_plain_reference_is_compared_word_by_word():
    assert judged("short_answer", "Mitochondria!", "the mitochondria").value == 1.0
    assert judged("short_answer", "The nucleus", "the mitochondria").value == 0.0


@pytest.mark.parametrize("scorer", ["choice", "quantity", "chemistry", "short_answer"])
@pytest.mark.parametrize(
    "answer", [{}, {"value": True}, {"value": {}}, {"value": [3]}, {"ideas": [{"any_of": []}]}]
)
def test_task_without_an_answer_gives_no_value_but_a_reason(scorer, answer):
    verdict = judged(scorer, "B", answer)
    assert verdict.value is None and verdict.reason
