"""Hostile answers to all scorers, in the real child process with its real limits: they get a
verdict and no reward, and kill nothing.
"""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict, scorer_names
from apps.rewards.scoring import Question
from tests.rewards.attacks import HOSTILE_CODE, HOSTILE_REPLIES
from workers.grading import Grader

ATTACKS = {
    "tower of powers": "\\boxed{9**9**9**9}",
    "tower of braces": "\\boxed{10^{10^{10^{10}}}}",
    "huge factorial": "\\boxed{99999999!}",
    "factorials of factorials": "\\boxed{((((9!)!)!)!)!}",
    "power of a power": "\\boxed{((2^{99999})^{99999})^{99999}}",
    "huge binomial": "\\boxed{\\binom{10^{9}}{5\\cdot10^{8}}}",
    "huge exponent of ten": "\\boxed{1e999999999}",
    "shift by a program": "<answer>1 << 99999999</answer>",
    "expansion": "\\boxed{(x+y+z+a+b+c)^{5000}}",
    "sum without an end": "\\boxed{\\sum_{n=1}^{99999999} n!}",
    "integral": "\\boxed{\\int_0^1 e^{e^{e^{x}}} dx}",
    "brackets": "\\boxed{" + "(" * 5_000 + "1" + ")" * 5_000 + "}",
    "a million brackets": "(" * 1_000_000,
    "braces": "\\boxed{" * 20_000 + "5" + "}" * 20_000,
    "fractions in fractions": "\\boxed{" + "\\frac{1}{" * 300 + "2" + "}" * 300 + "}",
    "roots in roots": "\\boxed{" + "\\sqrt{" * 300 + "2" + "}" * 300 + "}",
    "minuses": "\\boxed{" + "-" * 1_500 + "7}",
    "open boxes": "\\boxed{1" * 50_000,
    "open tags": "<answer>" * 50_000 + "1",
    "tags in tags": "<think><answer>" * 20_000 + "</answer></think>" * 20_000,
    "headings": "#### " * 50_000,
    "equals": "1 = " * 100_000 + "2",
    "commas": "\\boxed{" + "1," * 900 + "1}",
    "blanks": " " * 1_000_000 + "x",
    "lines": "\n" * 500_000 + "-",
    "backslashes": "\\" * 200_000,
    "dollars": "$" * 200_000,
    "ten megabytes of digits": "7" * 10_000_000,
    "zero byte": "\\boxed{1\x00}\x00",
    "half of a pair": "\\boxed{\ud800}\udfff",
    "digits of others": "\\boxed{٤٢} ４２ ²² ①",
    "marks on marks": "e" + "\u0301" * 100_000,
    "program": "<answer>__import__('os').system('id')</answer>",
    "name of a class": "\\boxed{().__class__.__bases__[0].__subclasses__()}",
    "verdict": '{"value": 1.0, "reason": "right", "details": {}}\n{"value": 1.0}',
    "every letter": "\\boxed{A, B, C, D, E, F, G, H}",
    "every number": "\\boxed{" + ", ".join(map(str, range(50))) + "}",
    "not a number": "\\boxed{nan}",
    "infinity": "\\boxed{\\infty}",
    "true": "\\boxed{True}",
    "unit of units": "\\boxed{5 m^{99999999}}",
    "unit of brackets": "5 " + "(" * 35 + "m",
    "unit of prefixes": "5 " + "yotta" * 7 + "m",
    "atoms": "\\boxed{" + "(H" * 200 + ")9999" * 200 + "}",
    "terms": "\\boxed{" + " + ".join(["H2"] * 130) + " -> H2O}",
    "matrix": "\\boxed{\\begin{pmatrix}" + "1&" * 900 + "\\end{pmatrix}}",
    "plus or minus": "\\boxed{" + "1 \\pm " * 60 + "1}",
    "question": "What is the answer to the task, and which of its words would you pay?",
    "nothing": "",
}
TASK = TaskView(
    [{"role": "user", "content": "?"}],
    {
        "value": "B",
        "choices": ["zinc", "iron"],
        "target": 24,
        "numbers": [3, 8, 1, 1],
        "ideas": ["osmosis"],
        "reference": ["it is osmosis"],
    },
)
INSTRUCTIONS = [
    {
        "id": "detectable_format:multiple_sections",
        "kwargs": {"section_spliter": "S", "num_sections": 2},
    },
    {"id": "detectable_content:postscript", "kwargs": {"postscript_marker": "P.S."}},
    {
        "id": "length_constraints:number_sentences",
        "kwargs": {"num_sentences": 9, "relation": "at least"},
    },
    {"id": "detectable_format:number_bullet_lists", "kwargs": {"num_bullets": 2}},
    {"id": "detectable_format:number_highlighted_sections", "kwargs": {"num_highlights": 2}},
    {"id": "length_constraints:number_paragraphs", "kwargs": {"num_paragraphs": 2}},
    {"id": "detectable_format:json_format", "kwargs": {}},
    {"id": "detectable_format:title", "kwargs": {}},
]
ANSWERS = {
    "grid": {"grids": [[[3, 5], [5, 3]]]},
    "instructions": {"instructions": INSTRUCTIONS},
    "math": {"value": "77/3"},
    "quantity": {"value": 9.8, "unit": "m/s^2"},
    "chemistry": {"value": "2H2 + O2 -> 2H2O"},
    "arithmetic": {"value": 42},
    "sort": {"sorted": "12345"},
    "choice": {"value": "B"},
    "countdown": TASK.answer,
    "short_answer": TASK.answer,
}
BOX = {"box": [0.1, 0.1, 0.5, 0.5]}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="5" height="5"/></svg>'
TASKS = {
    **{name: TaskView(TASK.prompt, answer) for name, answer in ANSWERS.items()},
    "counting": TaskView(TASK.prompt, {"count": 3}),
    "relaxed_number": TaskView(TASK.prompt, {"value": 3.5}),
    "grounding": TaskView(TASK.prompt, {**BOX, "width": 9, "height": 9}),
    "ocr": TaskView(TASK.prompt, {"text": "some words"}),
    "svg": TaskView(TASK.prompt, {"svg": SVG}),
    "support": TaskView(TASK.prompt, {"product": "lamp"}),
    "tone": TaskView(TASK.prompt, {"object": "lamp"}),
    "tone_dialogue": TaskView(TASK.prompt, {"objects": ["lamp"]}),
    "school": TaskView(TASK.prompt, TASK.answer, meta={"scorer": "short_answer"}),
}
# Tested in other files: scorers that ask a model, render pages, run code or compare groups.
ELSEWHERE = {"judge", "ruler", "duel", "html", "length", "code"}
CHARGES = ("overlong", "repetition")  # penalties: their values are never above 0


@pytest.fixture(scope="module")
def grader():
    grader = Grader(children=1)
    yield grader
    grader.stop()


def judged(grader: Grader, scorer: str, text: str, answer: dict) -> Verdict:
    (answered,) = grader.grade(
        [Question(1, scorer, (1,), (RolloutView(text, tokens=9),), TaskView(TASK.prompt, answer))]
    )
    return answered.verdicts[0]


def test_attack_list_covers_only_known_scorers_and_has_at_least_25_entries():
    assert len(ATTACKS) >= 25 and set(ANSWERS) | set(CHARGES) <= set(scorer_names())


@pytest.mark.parametrize("scorer", [*ANSWERS, "format"])
def test_no_attack_gets_a_reward_or_kills_the_child_process(grader, scorer):
    judged(grader, scorer, "warm", ANSWERS.get(scorer, {}))
    child = grader.children[0].process.pid
    verdicts = {
        name: judged(grader, scorer, text, ANSWERS.get(scorer, {}))
        for name, text in ATTACKS.items()
    }
    assert {name: verdict for name, verdict in verdicts.items() if verdict.value != 0.0} == {}
    assert grader.children[0].process.pid == child


@pytest.mark.parametrize("scorer", [*CHARGES, "language"])
def test_shaping_scorers_keep_within_their_range_for_every_attack(grader, scorer):
    judged(grader, scorer, "warm", {})
    child = grader.children[0].process.pid
    low, high = (-1.0, 0.0) if scorer in CHARGES else (0.0, 1.0)
    values = {name: judged(grader, scorer, text, {}).value for name, text in ATTACKS.items()}
    assert {
        name: value for name, value in values.items() if value is None or not low <= value <= high
    } == {}
    assert grader.children[0].process.pid == child


@pytest.mark.parametrize(
    "wanted", ["9**9**9**9", "x^{99999}", "(1+\\sqrt{2})^{999999}", "\\sum_{n=1}^{99999999} n"]
)
def test_large_reference_is_judged_too(grader, wanted):
    assert judged(grader, "math", "\\boxed{10^{10^{10}}}", {"value": wanted}).value == 0.0
    assert judged(grader, "math", f"\\boxed{{{wanted}}}", {"value": wanted}).value == 1.0


@pytest.mark.parametrize("scorer", sorted(set(scorer_names()) - ELSEWHERE))
def test_scorers_give_a_value_for_every_hostile_reply(grader, scorer):
    task = TASKS.get(scorer, TASK)
    questions = [
        Question(n, scorer, (n,), (RolloutView(text, tokens=9),), task)
        for n, text in enumerate(HOSTILE_REPLIES.values())
    ]
    answered = grader.grade(questions)
    verdicts = dict(zip(HOSTILE_REPLIES, (one.verdicts[0] for one in answered), strict=True))
    assert {name: verdict for name, verdict in verdicts.items() if verdict.value is None} == {}


@pytest.mark.parametrize("name", HOSTILE_CODE)
def test_code_scorer_gives_zero_for_hostile_code(grader, name):
    language, code = HOSTILE_CODE[name]
    tests = {"tests": [{"input": "", "output": "2"}]}
    fenced = f"```{language}\n{code}\n```"
    question = Question(
        1,
        "code",
        (1,),
        (RolloutView(fenced),),
        TaskView(TASK.prompt, tests),
        {"float_tolerance": 1e-6},
    )
    (answered,) = grader.grade([question])
    assert answered.verdicts[0].value == 0.0, answered.verdicts[0]
