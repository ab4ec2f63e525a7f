"""Scorers of tasks with pictures: what they reward and refuse, and that hostile text neither makes
them raise nor slows them down.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer
from apps.rewards.scorers.ocr import edit_distance
from apps.tasksets.generators import find_generator as generator

ANSWERS = {
    "counting": {"count": 3},
    "relaxed_number": {"value": 40, "tolerance": 0.05},
    "ocr": {"text": "Kettle 12"},
    "grounding": {"box": [10, 20, 50, 60], "width": 100, "height": 200},
}


def judged(scorer: str, text: str, answer: dict | None = None, **options: object) -> Verdict:
    return find_scorer(scorer).judge(
        [RolloutView(text)], TaskView((), ANSWERS[scorer] if answer is None else answer), options
    )[0]


def value(scorer: str, text: str, answer: dict | None = None, **options: object) -> float | None:
    return judged(scorer, text, answer, **options).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 1.0),
        (" 3.\n", 1.0),
        ("three", 1.0),
        ("There are three.", 1.0),
        ("Of these I see 3 red circles", 1.0),
        ("Let me count: 1, 2, 3.\nSo there are 3.", 1.0),
        ("<answer>3</answer>", 1.0),
        (r"\boxed{3}, and 4 others", 1.0),
        ("3.0", 1.0),
        ("4", 0.0),
        ("-3", 0.0),
        ("13", 0.0),
        ("", 0.0),
        ("none", 0.0),
        ("1 2 3 4 5", 0.0),
        ("3 or 4", 0.0),
        ("3\n4", 0.0),
        ("<answer>3</answer><answer>4</answer>", 0.0),
        ("٣", 1.0),
        ("3**3**3**9", 0.0),
        ("3a", 0.0),
        ("0x3", 0.0),
        ("3e9", 0.0),
    ],
)
def test_counting_rewards_only_the_one_right_number(text, expected):
    assert value("counting", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40", 1.0),
        ("38", 1.0),
        ("42", 1.0),
        ("37.9", 0.0),
        ("42.1", 0.0),
        ("about 41.5 %", 1.0),
        ("$40", 1.0),
        ("40°", 1.0),
        ("−40", 0.0),
        ("4e1", 1.0),
        ("NaN", 0.0),
        ("inf", 0.0),
        ("9" * 400, 0.0),
        ("9**9**9**9", 0.0),
        ("38 to 42", 0.0),
    ],
)
def test_chart_value_is_right_within_the_tolerance(text, expected):
    assert value("relaxed_number", text) == expected


def test_tolerance_comes_from_options_then_task_then_defaults_to_five_percent():
    assert value("relaxed_number", "44", tolerance=0.1) == 1.0
    assert value("relaxed_number", "42", {"value": 40, "tolerance": 0}) == 0.0
    assert value("relaxed_number", "42", {"value": 40}) == 1.0
    assert value("relaxed_number", "1,050", {"value": 1000}) == 1.0
    assert (
        value("relaxed_number", "0", {"value": 0}) == 1.0
        and value("relaxed_number", "0.1", {"value": 0}) == 0.0
    )
    assert value("relaxed_number", "73 degrees", {"degrees": 73, "tolerance": 0}) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kettle 12", 1.0),
        ("kettle 12", 1.0),
        (' "Kettle   12"\n', 1.0),
        ("Ｋettle 12", 1.0),
        ("<answer>Kettle 12</answer>", 1.0),
        ("Kettle 13", 1 - 1 / 9),
        ("Kettle12", 1 - 1 / 9),
        ("", 0.0),
        ("x" * 9_000, 0.0),
    ],
)
def test_ocr_rewards_a_small_edit_distance(text, expected):
    assert value("ocr", text) == pytest.approx(expected)


def test_ocr_options_set_case_sensitivity_and_a_threshold():
    assert value("ocr", "KETTLE 12", keep_case=True) == pytest.approx(1 - 5 / 9)
    assert value("ocr", "Kext", min_similarity=0.5) == 0.0


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_edit_distance_is_levenshteins(one, other):
    rows = [list(range(len(other) + 1))]
    for place, letter in enumerate(one, 1):
        row = [place]
        for at, there in enumerate(other, 1):
            row.append(min(rows[-1][at] + 1, row[-1] + 1, rows[-1][at - 1] + (letter != there)))
        rows.append(row)
    assert edit_distance(one, other) == rows[-1][-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[10, 20, 50, 60]", 1.0),
        ("(10,20),(50,60)", 1.0),
        ("( 10 , 20 ) , ( 50 , 60 )", 1.0),
        ('{"bbox_2d": [10,20,50,60]}', 1.0),
        ("It is at [10.0, 20, 50, 60].", 1.0),
        ("[10, 20, 50, 40]", 0.5),
        ("[50, 60, 90, 100]", 0.0),
        ("[50, 60, 10, 20]", 0.0),
        ("10, 20, 50, 60", 1.0),
        ("[10, 20, 50]", 0.0),
        ("[0,0,1,1] [10,20,50,60]", 0.0),
        ("[1e9, 0, 2e9, 1]", 0.0),
        ("", 0.0),
        ("[10,20,50,60] and again [10, 20, 50, 60]", 1.0),
    ],
)
def test_box_is_rewarded_by_its_overlap(text, expected):
    assert value("grounding", text) == pytest.approx(expected)


def test_options_set_the_unit_of_boxes_and_a_minimum_overlap():
    assert value("grounding", "[100, 100, 500, 300]", unit="thousandths") == 1.0
    assert value("grounding", "[0.1, 0.1, 0.5, 0.3]", unit="share") == pytest.approx(1.0)
    assert (
        value("grounding", "[10, 20, 50, 40]", iou_threshold=0.5) == 1.0
        and value("grounding", "[10, 20, 50, 39]", iou_threshold=0.5) == 0.0
    )


@pytest.mark.parametrize(
    ("text", "unit", "overlap"),
    [
        ("<loc0102><loc0102><loc0307><loc0512>", "pixels", 1),  # PaliGemma: top first, of 1024
        ("<loc0102> <loc0102> <loc0307> <loc0512> cat", "thousandths", 1),
        ("<loc0102><loc0102><loc0512><loc0307>", "pixels", 1 / 3),
        ("<loc_100><loc_100><loc_500><loc_300>", "share", 1),  # Florence-2: left first, of 1000
        ("cat<loc_100><loc_100><loc_500><loc_300>", "pixels", 1),
        ("<loc_100><loc_100><loc_500>", "pixels", 0),
    ],
)
def test_location_tokens_are_shares_of_the_image_sides(text, unit, overlap):
    assert value("grounding", text, unit=unit) == pytest.approx(overlap, abs=0.03)


def test_location_tokens_need_the_image_size():
    verdict = judged("grounding", "<loc_1><loc_2><loc_3><loc_4>", {"box": [10, 20, 50, 60]})
    assert verdict.value == 0.0 and "no width and height" in verdict.reason


@pytest.mark.parametrize(
    ("text", "paid"),
    [
        ("(30, 40)", 1),
        ("[50, 60]", 1),
        ("(51, 40)", 0),
        ("<answer>(30, 40)</answer>", 1),
        ('{"point_2d": [30, 40], "label": "cat"}', 1),
        ('{"x": 30, "y": 40}', 1),
        ("x = 30, y = 40", 1),
        ("(30px, 40px)", 1),
        ('<point x="30.5" y="20" alt="cat">cat</point>', 1),  # Molmo: percent of 100 and 200
        ('<point x="30.5" y="40" alt="cat">cat</point>', 0),
        ("It is not at (30, 40) but at (90, 40).", 0),
        ("Either (30, 40) or (90, 40).", 0),
        ("<think>(30, 40)</think>It is there.", 0),
        ("[10, 20, 50, 60]", 0),
        ("", 0),
    ],
)
def test_point_is_rewarded_inside_the_box(text, paid):
    assert value("grounding", text, reply="point") == paid


def test_points_in_thousandths_are_compared_in_thousandths():
    assert value("grounding", "[300, 200]", reply="point", unit="thousandths") == 1.0
    assert value("grounding", "[30, 40]", reply="point", unit="thousandths") == 0.0


def test_overlap_threshold_for_points_is_refused():
    with pytest.raises(ValueError, match="a point has no overlap"):
        find_scorer("grounding").read_options({"reply": "point", "iou_threshold": 0.5})


@pytest.mark.parametrize("scorer", ANSWERS)
@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"count": True, "value": "", "text": 5, "box": [1, 2, 3]},
        {"value": float("nan")},
        {"text": ""},
    ],
)
def test_task_without_a_valid_answer_is_not_judged(scorer, answer):
    verdict = judged(scorer, "3", answer)
    assert verdict.value is None and verdict.reason.startswith("the task")


HOSTILE = [
    "9" * 200_000,
    "[" * 200_000,
    "(1," * 60_000,
    "<answer>" * 20_000,
    "\\boxed{" * 20_000,
    "1," * 100_000,
    "\ud800\0",
    "1.1" * 60_000,
    "(" + " " * 100_000 + "1",
    "-" * 100_000,
    "two " * 30_000,
    "\n" * 100_000,
    "𝟛",
    "1 " * 100_000,
    "<answer>" + "a" * 100_000,
    "[1, " * 50_000,
    "[0" + " " * 50_000 + ",",
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("scorer", ANSWERS)
def test_hostile_text_gets_no_reward(scorer):
    assert [value(scorer, text) for text in HOSTILE] == [pytest.approx(0, abs=0.01)] * len(HOSTILE)


@given(st.text())
def test_no_text_makes_the_scorers_raise(text):
    for scorer in ANSWERS:
        assert 0.0 <= value(scorer, text) <= 1.0


@pytest.mark.parametrize(
    ("name", "scorer", "say"),
    [
        ("shapes", "counting", lambda answer: f"There are {answer['count']}."),
        ("charts", "relaxed_number", lambda answer: str(answer["value"])),
        ("text_render", "ocr", lambda answer: answer["text"]),
        ("grounding", "grounding", lambda answer: str(answer["box"])),
        ("geometry", "relaxed_number", lambda answer: f"{answer['degrees']}°"),
    ],
)
def test_generated_task_pays_its_own_answer_in_full_and_others_mostly_not(name, scorer, say):
    rows = list(generator(name)(40, 2))
    assert [value(scorer, say(row.answer), row.answer) for row in rows] == [1.0] * 40
    assert sum(value(scorer, say(other.answer), row.answer) for row, other in pairwise(rows)) < 20


@pytest.mark.parametrize(
    ("scorer", "answer", "text"),
    [
        ("ocr", "HELLO", "hello"),
        ("counting", 3, "three"),
        ("grounding", [0, 0, 4, 4], "[0, 0, 4, 4]"),
    ],
)
def test_answer_may_be_a_bare_value(scorer, answer, text):
    (verdict,) = find_scorer(scorer).judge([RolloutView(text)], TaskView((), {"value": answer}))
    assert verdict.value == 1.0


BOXES = [
    ('{"top_left":[10,20],"bottom_right":[110,220]}', 1),
    ('{"top_left":{"x":10,"y":20},"bottom_right":{"x":110,"y":220}}', 1),
    ('{"x1":"10","y1":"20","x2":"110","y2":"220"}', 1),
    ("[10 20 110 220]", 1),
    ("<bbox>10, 20, 110, 220</bbox>", 1),
    ("<answer>10, 20, 110, 220</answer>", 1),
    ("<answer>10, 20, 110</answer>", 0),
    ('{"x1":10,"y1":20,"x2":110,"y2":220}', 1),
    ('{"xmin":10,"ymin":20,"xmax":110,"ymax":220}', 1),
    ('{"x_min": 10, "y_min": 20, "x_max": 110, "y_max": 220}', 1),
    ('{"left":10,"top":20,"right":110,"bottom":220}', 1),
    ('{"x":10,"y":20,"width":100,"height":200}', 1),
    ('{"x":10,"y":20,"w":100,"h":200}', 1),
    ('{"bbox_2d":[10,20,110,220],"label":"cat"}', 1),
    ('```json\n[{"bbox_2d": [10, 20, 110, 220], "label": "cat"}]\n```', 1),
    ('{"bbox": {"x1": 10, "y1": 20, "x2": 110, "y2": 220}}', 1),
    ("[[10,20],[110,220]]", 1),
    ("<box>(10,20),(110,220)</box>", 1),
    ("<|box_start|>(10,20),(110,220)<|box_end|>", 1),
    ("x1=10, y1=20, x2=110, y2=220", 1),
    ("{'x1': 10, 'y1': 20, 'x2': 110, 'y2': 220}", 1),
    ('{"x1":10,"y1":20,"x2":110,"y2":220} {"x1":0,"y1":0,"x2":1,"y2":1}', 0),
    ('{"x0":10,"y0":20,"x1":110,"y1":220}', 1),
    ('{"x1":10,"y1":20}', 0),
    ('<answer>{"x1":10,"y1":20,"x2":110,"y2":220}</answer>', 1),
    ('{"box_2d": [10, 20, 110, 220]}', 1),
]
COUNTS = [
    ("drei", 3, 1),
    ("cinq", 5, 1),
    ("siete", 7, 1),
    ("три", 3, 1),
    ("There are no circles.", 0, 1),
    ("There is a single circle.", 1, 1),
    ("There is no doubt: 4.", 4, 1),
    ("a dozen", 12, 1),
    ("There are twenty-one apples.", 21, 1),
    ("I count a couple of dogs.", 2, 1),
    ("half a dozen", 6, 1),
    ("one hundred and five", 105, 1),
    ("seventeen", 17, 1),
    ("two or three", 2, 0),
    ("There is one.", 1, 1),
    ("3", 3, 1),
    ("１２", 12, 1),
    ("十二", 12, 1),
    ("none", 0, 1),
    ("**Three**", 3, 1),
    ("three (3)", 3, 1),
]
NUMBERS = [
    ("1/2", 0.5, 1),
    (r"\frac{3}{4}", 0.75, 1),
    ("24/7", 24, 0),
    ("one and a half million", 1500000, 1),
    ("120万", 1200000, 1),
    ("1.2亿", 120000000, 1),
    ("1.2 million", 1200000, 1),
    ("1.2M", 1200000, 1),
    ("$1.2 million", 1200000, 1),
    ("45%", 0.45, 1),
    ("45%", 45, 1),
    ("45 percent", 0.45, 1),
    ("3.4k", 3400, 1),
    ("two thousand", 2000, 1),
    ("2008", 2010, 0),
    ("2010", 2010, 1),
    ("1,200", 1200, 1),
    ("0.45", 0.45, 1),
    ("4.5", 0.45, 0),
    ("2.5 billion dollars", 2500000000.0, 1),
    ("about 41", 40, 1),
    ("−40", -40, 1),
    ("forty", 40, 1),
]


@pytest.mark.parametrize(("text", "worth"), BOXES)
def test_box_is_read_in_the_usual_notations(text, worth):
    assert value("grounding", text, {"box": [10, 20, 110, 220]}) == pytest.approx(worth)


@pytest.mark.parametrize(("text", "count", "worth"), COUNTS)
def test_count_is_read_in_words(text, count, worth):
    assert value("counting", text, {"count": count}) == worth


@pytest.mark.parametrize(("text", "wanted", "worth"), NUMBERS)
def test_scale_words_and_percentages_are_read_and_years_must_be_exact(text, wanted, worth):
    assert value("relaxed_number", text, {"value": wanted}) == worth


def test_number_that_is_not_a_year_has_a_tolerance():
    prompt = [{"role": "user", "content": "How many kettles were sold?"}]
    task = TaskView(prompt, {"value": 2010})
    assert find_scorer("relaxed_number").judge([RolloutView("2008")], task)[0].value == 1.0
