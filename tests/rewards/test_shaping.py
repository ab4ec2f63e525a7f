"""Shaping: format, overlong, repetition, language."""

import pytest
from pydantic import ValidationError

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer

RIGHT = "<think>two and two</think>\n<answer>4</answer>\n"


def judged(scorer: str, text: str, tokens: int | None = None, **options: object) -> Verdict:
    return find_scorer(scorer).judge([RolloutView(text, tokens=tokens)], TaskView(), options)[0]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (RIGHT, {}, 1.0),
        ("Well: " + RIGHT, {}, 0.0),
        ("Well: " + RIGHT, {"nothing_outside": False}, 1.0),
        ("<answer>4</answer><think>2</think>", {}, 0.0),
        ("<answer>4</answer><think>2</think>", {"in_order": False}, 1.0),
        ("<think></think><answer>4</answer>", {}, 0.0),
        ("<think></think><answer>4</answer>", {"not_empty": False}, 1.0),
        ("<think>a<answer>4</answer></think>", {}, 0.0),
        ("</think>a<think><answer>4</answer>", {}, 0.0),
        (RIGHT + RIGHT, {}, 0.0),
        ("<think>" * 99 + "a</think><answer>4</answer>", {}, 0.0),
        ("<think>a</think><answer>4", {}, 0.0),
        ("", {}, 0.0),
        ("<plan>x</plan>", {"tags": ["plan"]}, 1.0),
    ],
)
def test_format_rewards_only_the_exact_structure(text, options, expected):
    assert judged("format", text, **options).value == expected


@pytest.mark.parametrize("tags", [[], ["a b"], ["a", "a"], ["<x>"]])
def test_invalid_tags_are_refused(tags):
    with pytest.raises(ValidationError):
        judged("format", RIGHT, tags=tags)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(0, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (101, -1.0), (10**9, -1.0)],
)
def test_length_penalty_grows_over_the_last_tokens(tokens, expected):
    assert judged("overlong", "", tokens, max_tokens=100, cache_tokens=20).value == pytest.approx(
        expected
    )


@pytest.mark.parametrize(("tokens", "expected"), [(40, 0.0), (45, -0.5), (50, -1.0), (51, -1.0)])
def test_tighter_limit_of_a_task_shortens_the_length_penalty_in_proportion(tokens, expected):
    task = TaskView(meta={"limits": {"max_tokens": 50}})
    options = {"max_tokens": 100, "cache_tokens": 20}
    said = find_scorer("overlong").judge([RolloutView("", tokens=tokens)], task, options)[0]
    assert said.value == pytest.approx(expected)
    looser = TaskView(meta={"limits": {"max_tokens": 500}})
    assert find_scorer("overlong").judge([RolloutView("", tokens=90)], looser, options)[
        0
    ].value == pytest.approx(-0.5)


def test_invalid_limit_of_a_task_gives_no_penalty_but_a_reason():
    task = TaskView(meta={"limits": {"max_tokens": "short"}})
    said = find_scorer("overlong").judge([RolloutView("", tokens=5)], task, {})[0]
    assert said.value is None and "meta.limits.max_tokens" in said.reason


def test_rollout_without_a_length_gets_no_length_penalty():
    assert judged("overlong", "word").value is None


def test_limit_without_a_penalty_zone_is_hard():
    assert [
        judged("overlong", "", tokens, max_tokens=9, cache_tokens=0).value for tokens in (9, 10)
    ] == [0.0, -1.0]


def test_penalty_zone_longer_than_the_limit_is_refused():
    with pytest.raises(ValidationError, match="cache_tokens"):
        judged("overlong", "", 1, max_tokens=5, cache_tokens=6)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("one two three four five", {}, 0.0),
        ("a b a b a b", {"ngram_size": 2}, -0.6),
        ("a b a b a b", {"ngram_size": 2, "max_penalty": 0.5}, -0.3),
        ("", {}, 0.0),
        ("a b", {}, 0.0),
        ("A b a B", {"ngram_size": 2}, -1 / 3),
    ],
)
def test_repeated_text_is_penalized(text, options, expected):
    assert judged("repetition", text, **options).value == pytest.approx(expected)


@pytest.mark.parametrize("text", ["ha" * 5_000, "the same again " * 5_000])
def test_endless_loops_get_almost_the_full_penalty(text):
    assert judged("repetition", text).value < -0.99


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Good day", {}, 1.0),
        ("42!", {}, 1.0),
        ("", {}, 0.0),
        ("добрый день", {}, 0.0),
        ("добрый день", {"scripts": ["cyrillic"]}, 1.0),
        ("ab你好", {}, 0.5),
        ("ab你好", {"scripts": ["latin", "cjk"]}, 1.0),
        ("ab你好", {"min_share": 0.6}, 0.0),
        ("abc€", {"ascii": True}, 0.75),
        ("café", {}, 1.0),
        ("café", {"ascii": True}, 0.75),
    ],
)
def test_letters_of_other_scripts_lower_the_reward_by_their_share(text, options, expected):
    assert judged("language", text, **options).value == expected


LANGUAGES = [
    (r"答案是 x^2 + y^2 = 4，所以 \boxed{4}", ["cjk"], 1),
    ("答案是 `print(x)`。", ["cjk"], 1),
    ("答案是\n```python\nprint(x)\n```", ["cjk"], 1),
    ("设 x 为 5，则 y = 3", ["cjk"], 1),
    (r"The answer is $\alpha$", ["latin"], 1),
    ("Ответ: f(x)=2x", ["cyrillic"], 1),
    ("答案 https://example.org", ["cjk"], 1),
    (r"\frac{1}{2} 是答案", ["cjk"], 1),
    ("ｗｏｒｄ", ["latin"], 1),
    ("ﾃｽﾄ", ["katakana"], 1),
    ("点A和点B", ["cjk"], 1),
    ("I am here", ["latin"], 1),
]
FORMATS = [
    ("2 and 2.\n</think>\n<answer>\n4\n</answer>", 1),
    ("<think>It goes into <answer> tags.</think><answer>4</answer>", 1),
    ("<think>I use <answer></answer>.</think><answer>4</answer>", 1),
    ("<think>a</think><answer>4</answer><answer>5</answer>", 0),
    ("</think><answer>4</answer>", 0),
    ("<answer>4</answer>", 0),
    ("a</think>b</think><answer>4</answer>", 0),
    ("<think>a</think><answer>4</answer> ok", 0),
    ("<think>a</think><answer><think>4</think></answer>", 0),
    ("<think>a</think> so <answer>4</answer>", 0),
]
REPETITIONS = [
    ("谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢谢", -1, -0.8),
    ("好的好的好的好的", -1, -0.3),
    ("今天天气很好，我们去公园散步吧。", -0.05, 0),
    ("สวัสดีสวัสดีสวัสดีสวัสดีสวัสดีสวัสดี", -1, -0.7),
    ("ありがとうありがとうありがとうありがとうありがとう", -1, -0.6),
    ("the cat sat on the mat", -0.1, 0),
]


@pytest.mark.parametrize(("text", "scripts", "share"), LANGUAGES)
def test_formulas_and_code_belong_to_no_language(text, scripts, share):
    assert judged("language", text, scripts=scripts).value == share


@pytest.mark.parametrize(
    ("name", "hint"),
    [("han", "cjk"), ("chinese", "cjk"), ("latn", "latin"), ("klingon", "known: ")],
)
def test_unknown_script_is_refused_with_the_nearest_name(name, hint):
    with pytest.raises(ValidationError, match=hint):
        judged("language", "a", scripts=[name])


@pytest.mark.parametrize(("text", "worth"), FORMATS)
def test_template_may_open_the_thoughts_and_thoughts_may_mention_tags(text, worth):
    assert judged("format", text).value == worth


def test_option_fixes_whether_the_template_opens_the_first_tag():
    inside = "2\n</think><answer>4</answer>"
    whole = RIGHT
    assert [judged("format", text, opened=True).value for text in (inside, whole)] == [1.0, 0.0]
    assert [judged("format", text, opened=False).value for text in (inside, whole)] == [0.0, 1.0]


@pytest.mark.parametrize(("text", "low", "high"), REPETITIONS)
def test_scripts_without_spaces_are_read_character_by_character(text, low, high):
    assert low <= judged("repetition", text).value <= high
