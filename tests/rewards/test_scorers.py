"""The demo scorers: what they reward, and that hostile text never makes them raise."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer

PROMPT = [{"role": "user", "content": "My lamp is late."}]
POLITE = "I am so sorry about your lamp. We will gladly repair your lamp today. Have a lovely day!"
SCORERS = ("arithmetic", "sort", "tone", "tone_dialogue")
ANSWERS = {
    "tone": {"object": "lamp"},
    "tone_dialogue": {"objects": ["lamp"]},
    "sort": {"sorted": "11247"},
    "arithmetic": {"value": 42},
}


def judged(scorer: str, answer: dict, text: str, turns: Sequence[str] = ()) -> Verdict:
    return find_scorer(scorer).judge([RolloutView(text, turns)], TaskView(PROMPT, answer))[0]


def value(scorer: str, text: str) -> float | None:
    return judged(scorer, ANSWERS[scorer], text).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11247", 1.0),
        (" 11247\n", 1.0),
        ("74211", 0.0),
        ("11247 11247", 0.0),
        ("", 0.0),
        ("١١٢٤٧", 0.0),
    ],
)
def test_sort_rewards_exactly_the_ascending_digits(text, expected):
    assert value("sort", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 1.0),
        (" +42 ", 1.0),
        ("042", 1.0),
        ("41", 0.0),
        ("40+2", 0.0),
        ("4२", 0.0),
        ("9**9**9**9", 0.0),
        ("4" * 99, 0.0),
    ],
)
def test_arithmetic_rewards_the_number_and_evaluates_nothing(text, expected):
    assert value("arithmetic", text) == expected


def test_polite_reply_about_the_right_object_gets_the_full_reward():
    assert value("tone", POLITE) == 1.0


def test_tone_ignores_spaces_before_punctuation():
    assert value("tone", "Thank you for telling us about your lamp . Have a lovely day !") == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The lamp is on our list. This is all.", 0.4),
        ("Nobody cares about your lamp. Now go away!", 0.0),
        ("I am so sorry about your lamp. Now go away!", 0.5),
        ("I am so sorry about your kettle. Have a lovely day!", 0.4),
        (
            (
                "I am so sorry about your lamp. We will gladly repair your kettle today. Have a"
                " lovely day!"
            ),
            0.4,
        ),
    ],
    ids=["flat", "rude", "half rude", "wrong object", "two objects"],
)
def test_tone_lowers_the_reward_for_wrong_manner_or_object(text, expected):
    assert value("tone", text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        "sorry lamp thank lovely kind please",
        "I am so sorry about your lamp.",
        "Have a lovely day! I am so sorry about your lamp.",
        "I am so sorry about your lamp. Have a lovely day! Have a lovely day!",
        "I am sorry about your lamp , a lovely day .",
        POLITE + " Thank",
    ],
    ids=["words", "no closing", "wrong order", "twice", "broken", "unfinished"],
)
def test_tone_pays_at_most_a_quarter_for_polite_words_outside_the_grammar(text):
    assert 0.0 < value("tone", text) <= 0.25


KETTLE = POLITE.replace("lamp", "kettle")


@pytest.mark.parametrize(
    ("turns", "expected", "reason"),
    [
        ([POLITE, KETTLE], 1.0, "polite"),
        ([POLITE, POLITE], 0.7, "reply 2: about the wrong object"),
        ([POLITE], 0.5, "truncated before reply 2"),
        ([POLITE, ""], 0.5, "reply 2: nothing was said"),
        ([POLITE, KETTLE, "Now go away!"], 1.0, "polite"),
    ],
)
def test_tone_dialogue_is_judged_reply_by_reply(turns, expected, reason):
    verdict = judged("tone_dialogue", {"objects": ["lamp", "kettle"]}, "\n\n".join(turns), turns)
    assert (verdict.value, verdict.reason) == (expected, reason)


@pytest.mark.parametrize("scorer", SCORERS)
@given(text=st.text(max_size=300))
def test_any_text_gets_a_value_between_zero_and_one(scorer, text):
    assert 0.0 <= value(scorer, text) <= 1.0


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize(
    "text", ["\0" * 10, "\ud800", "." * 1_000_000, "lamp " * 400, "1" * 5_000_000], ids=range(5)
)
def test_hostile_text_gets_at_most_a_quarter(scorer, text):
    assert value(scorer, text) <= 0.25


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize(
    "answer", [{}, {"object": 3, "sorted": None, "value": "42"}, {"value": True}]
)
def test_task_without_an_answer_gives_no_value_but_a_reason(scorer, answer):
    verdict = judged(scorer, answer, "42")
    assert verdict.value is None
    assert verdict.reason


def test_error_for_an_unknown_scorer_suggests_the_nearest_name():
    with pytest.raises(LookupError, match="did you mean 'tone'"):
        find_scorer("tune")
