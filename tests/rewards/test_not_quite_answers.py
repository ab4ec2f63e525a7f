"""Tables of answers that are nearly right, hedged or listed, and of right ones in other words."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer

Rows = list[tuple[object, str, list[str], list[str]]]  # answer, question, right and wrong replies


def misjudged(scorer: str, rows: Rows) -> list[tuple[object, str, float | None]]:
    """List the replies that get another reward than they should."""
    wrongly_judged = []
    for answer, question, right, wrong in rows:
        prompt = [{"role": "user", "content": question}] if question else ()
        task = TaskView(prompt, answer if isinstance(answer, dict) else {"value": answer})
        for replies, expected in ((right, 1.0), (wrong, 0.0)):
            for reply in replies:
                value = find_scorer(scorer).judge([RolloutView(reply)], task)[0].value
                if value != expected:
                    wrongly_judged.append((answer, reply, value))
    return wrongly_judged


def boxed(*answers: str) -> list[str]:
    return [f"So it is \\boxed{{{answer}}}." for answer in answers]


MATH: dict[str, Rows] = {
    "and is not or": [
        (
            "x<-1 or x>2",
            "",
            boxed("x>2 or x<-1", "x<-1, x>2", r"(-\infty,-1)\cup(2,\infty)"),
            boxed("x<-1 and x>2", r"x<-1 \text{ and } x>2", r"x<-1 \land x>2", "-1<x<2"),
        ),
        (r"1<x<3", "", boxed("x>1 and x<3", "(1,3)"), boxed("x>1 or x<3")),
        ("x=2 or x=3", "", boxed("x=2 and x=3", "x_1=2, x_2=3", "2, 3"), boxed("x=2")),
        (r"x=1 \text{ or } y=2", "", boxed("x=1 or y=2"), boxed("x=1, y=2", "x=1 and y=2")),
        (r"x\ne 0,1", "", boxed(r"\mathbb{R}\setminus\{0,1\}"), boxed(r"x\ne 0 or x=1", r"x\ne 0")),
    ],
    "a division is still to be done": [
        ("4", "What is 8/2?", boxed("4", "4/1"), boxed("8/2", r"\frac{8}{2}", "16/4", "-(-4)")),
        (r"\frac{3}{4}", "Simplify 18/24.", boxed("3/4", "0.75"), boxed("6/8", "18/24")),
        (r"\frac{3}{4}", "What is the probability?", boxed("6/8", "75%"), boxed("4/3")),
        ("120", "", boxed("120"), boxed("C(10,3)", "10C3", "240/2")),
        ("61", "", ["61"], ["61 mod 7", "0x61"]),
    ],
    "times and ratios": [
        ("12", "How many times as many?", boxed("12"), boxed("12:1")),
        ("12", "What is the ratio?", boxed("12", "12:1"), boxed("1:12")),
        ("3:45", "When does it leave?", boxed("3:45"), boxed("1:15", "4:60", "0.0667")),
        ("3:15 PM", "", boxed("3:15 pm", "15:15"), boxed("3:15 am", "1:5")),
        ("3:4", "", boxed("6:8", r"\frac{3}{4}"), boxed("4:3")),
    ],
    "only near": [
        (
            "12",
            "How many eggs are there?",
            ["12", "exactly 12", "It takes about 3 days, so 12."],
            [
                "about 12",
                "The answer is approximately 12.",
                "≈ 12",
                "about a dozen",
                "etwa 12",
                "environ 12",
                "unos 12",
                "около 12",
                "大约12",
                "約12",
                "12 or so",
                "perhaps 12",
                *boxed(r"\approx 12", r"\text{about } 12", r"12 \text{ (approximately)}"),
            ],
        ),
        ("12", "Estimate how many eggs there are.", ["about 12"], ["about 13"]),
        ("3.14", "", ["about 3.14"], ["about 3.1"]),
    ],
    "values in words of other languages": [
        (
            r"\frac{2}{3}",
            "",
            boxed("三分之二", "3分の2", "zwei Drittel", "deux tiers", "dos tercios", "две трети"),
            boxed("二分之三", "drei Halbe", "un tercio", "三分之一"),
        ),
        ("15%", "What percent?", boxed("百分之十五", "quinze pour cent"), boxed("百分之五十")),
        ("-7", "", boxed("负七", "minus sieben", "moins sept", "минус семь"), boxed("sieben")),
        ("42", "", ["сорок два", "𝟒𝟐"], ["двадцать четыре"]),
        ("150", "", boxed("一百五十", "一百五"), boxed("一百零五", "十五")),
    ],
    "money and thousands": [
        (r"\$32,348", "", boxed("32348", "32,348 dollars"), boxed("32,348 cents")),
        ("18", "", ["9 × $2 = $18"], ["9 × $2 = $19"]),
    ],
    "another value in the place of a unit": [
        (
            "51",
            "Compute 17*3.",
            boxed("51", r"51 \text{ apples}"),
            boxed(
                r"51 \text{ (or 20)}",
                r"51\text{ units or }20\text{ units}",
                r"51\text{?}",
                r"51\text{ is wrong}",
                "51_{20}",
            ),
        ),
        (r"\frac{1}{3}", "What is the probability?", boxed("1/3"), boxed("1:3")),
    ],
    "what nobody sees": [("18", "", ["19 no: \\boxed{18}"], ["<!-- \\boxed{18} --> 19"])],
}


@pytest.mark.parametrize("rows", MATH.values(), ids=MATH)
def test_math_tells_answers_from_what_is_not_quite_one(rows):
    assert misjudged("math", rows) == []


SHORT: dict[str, Rows] = {
    "where it lies": [
        (
            {"reference": "Mount Everest"},
            "What is the highest mountain?",
            ["Mount Everest in Nepal", "Mount Everest, Asia", "Mount Everest (Nepal)", "Everest"],
            ["Mount Everest, Mount Elbrus", "Mount Everest or K2", "a peak near Mount Everest"],
        ),
        (
            {"reference": "New York City"},
            "In which city is it?",
            ["New York City, USA", "New York City in the United States"],
            ["New York City, Boston", "Jersey City"],
        ),
        (
            {"reference": "Paris"},
            "Where is the Louvre?",
            ["Paris, France"],
            ["Paris, Texas", "Pari", "Paris (London)"],
        ),
        ({"reference": "Sydney"}, "", ["Sydney, Australia"], ["Sydney, Canada"]),
        ({"reference": "United States"}, "", ["USA", "the United States of America"], ["us"]),
    ],
    "several answers": [
        (
            {"reference": "Canberra"},
            "What is the capital of Australia?",
            ["Canberra", "Answer:\nCanberra", "It is Canberra."],
            [
                "Canberra\nSydney",
                "Sydney\nCanberra",
                "- Canberra\n- Sydney",
                "Canberra (Sydney)",
                "It is one of: Canberra, Sydney",
                "The capital is Canberra, Sydney, Perth.",
                "Canberra: no. Sydney: yes.",
                "Many people think it is Canberra.",
                "Canberra, but I may be wrong: Sydney",
                "\\boxed{Sydney}\\boxed{Canberra}",
            ],
        ),
        ({"reference": "巴黎"}, "", ["是巴黎"], ["可能是巴黎", "也许是巴黎"]),
        ({"reference": "left"}, "Is it left or right?", ["left"], ["left and right"]),
    ],
    "other names beside it": [
        (
            {"reference": "Jupiter"},
            "What is the largest planet?",
            ["Jupiter", "Jupiter.\nSource: NASA", '{"answer": "Jupiter"}'],
            [
                "Jupiter — Saturn",
                "Saturn. Jupiter. Mars.",
                '{"answer": ["Jupiter", "Saturn"]}',
                "Answer 1: Jupiter. Answer 2: Saturn.",
                "Answer: Saturn\nAnswer: Jupiter",
                "Jupiter (if not, Saturn)",
                "One planet is Jupiter.",
            ],
        )
    ],
    "roles and times": [
        (
            {"reference": "Neil Armstrong"},
            "Who was first on the Moon?",
            ["Astronaut Neil Armstrong", "Neil Armstrong, in 1969", "Neil Armstrong in July 1969"],
            ["Neil Armstrong and Buzz Aldrin", "Buzz Aldrin (Neil Armstrong)"],
        ),
        ({"reference": "1945"}, "When did it end?", ["It ended on 2 September 1945."], ["by 1945"]),
    ],
}


@pytest.mark.parametrize("rows", SHORT.values(), ids=SHORT)
def test_short_answers_count_with_harmless_additions_but_not_with_other_answers(rows):
    assert misjudged("short_answer", rows) == []


OTHERS: dict[str, Rows] = {
    "chemistry": [
        (
            "CH3COOH",
            "Give the structural formula of acetic acid.",
            ["CH3COOH", "CH3CO2H"],
            ["C2H4O2", "HCOOCH3"],
        ),
        ("CH3COOH", "Give the molecular formula of acetic acid.", ["C2H4O2"], ["CH2O"]),
        ("C6H5OH", "", ["C6H5-OH"], ["C6H5O-"]),
        ("CO2", "", ["The gas is CO2, not CO."], ["CO, not CO2", "HNO3\nCO2", "maybe CO2"]),
        ("^{4}_{2}He", "", ["⁴₂He", "He-4"], ["³₂He"]),
    ],
    "choice": [
        (
            "A",
            "",
            ["A seems right.", "Let us see: B no. C no. D no. Therefore A.", "ａ"],
            ["~A", "A: no, B: no, C: no", "Answer: B\nAnswer: A"],
        ),
        ("B", "", ["B"], ["Options B and A both seem right."]),
        ("I", "", ["Answer: I"], ["I think it is J"]),
    ],
    "counting": [
        ({"count": 12}, "How many birds?", ["12", "twelve"], ["about 12", "~12", "nearly twelve"])
    ],
    "quantity": [
        ({"value": 25, "unit": "cm^2"}, "", ["25平方厘米", "25 cm²"], ["25 cm", "25平方米"]),
        ({"value": 37, "unit": "°C"}, "", ["37 градусов Цельсия"], ["37 °F"]),
        ({"value": 90, "unit": "km/h"}, "", ["90 Kilometer pro Stunde"], ["90 km"]),
        ({"value": 45, "unit": "°"}, "", ["π/4", r"\boxed{\frac{\pi}{4}}"], ["π/3", "π/4 m"]),
        ({"value": 9.1e-31, "unit": "kg"}, "", ["9.1 x 10^(-31) kg"], ["9.1 x 10^(31) kg"]),
    ],
    "format": [
        (
            {},
            "",
            ["<think>a</think><answer>b</answer>"],
            ["<think>a</think><answer>\u3164</answer>", "<think>\u2800</think><answer>b</answer>"],
        )
    ],
}


@pytest.mark.parametrize("scorer", OTHERS)
def test_other_scorers_tell_answers_from_what_is_not_quite_one(scorer):
    assert misjudged(scorer, OTHERS[scorer]) == []


@pytest.mark.parametrize("number", [2, 7, 19, 60, 144, 1000])
def test_no_hedge_in_front_of_a_number_is_paid(number):
    hedges = ["about", "around", "roughly", "nearly", "maybe", "ungefähr", "environ", "примерно"]
    rows: Rows = [
        (str(number), "", [f"It is {number}."], [f"It is {hedge} {number}." for hedge in hedges])
    ]
    assert misjudged("math", rows) == []
