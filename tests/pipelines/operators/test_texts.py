"""Unusual forms of texts that operators leave out: refusals, near duplicates, broken characters."""

import pytest
from pydantic import ValidationError

from apps.pipelines.operators import find_operator
from apps.pipelines.operators.contract import Sample


def kept(name: str, *texts: str, **options: object) -> list[int]:
    operator = find_operator(name)
    samples = [
        Sample(rollout=place, group=1, text=text, reward=1.0) for place, text in enumerate(texts)
    ]
    return [one.rollout for one in operator.call(samples, operator.read_options(options)).kept]


REFUSALS = [
    "I cannot help with that.",
    "I can’t assist with that.",
    "I can not help with that.",
    "I cannot fulfill this request.",
    "I can't comply with that.",
    "I won't be able to help with that.",
    "I'm not able to help with that.",
    "I must decline to answer.",
    "Sorry. I cannot help.",
    "I'm sorry but I can't help.",
    "I'm really sorry, but I can't help with that.",
    "I'm sorry, but I'm not able to help.",
    "I'm afraid I can't help with that.",
    "I apologize, but I cannot help with that.",
    "**I cannot help with that.**",
    "\u200bI cannot help",
    "<think>hm</think>I cannot help.",
    "<thinking>x</thinking>I cannot help.",
    "[THINK]x[/THINK]I cannot help.",
]
ANSWERS = [
    "I am sorry, but I can confirm that it is 4.",
    "I'm sorry, but I can only find one solution: 4.",
    "I can't help but laugh.",
    "I cannot help laughing.",
    'The clerk said "I cannot help you" and left.',
    "<think>I cannot help.</think>The answer is 4.",
    "It is used as an aid in surgery.",
    "As an air carrier, it flies.",
    "x " * 150 + "I cannot help.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_refusal_is_recognized_in_its_usual_forms(text):
    assert kept("refusal", text) == []


@pytest.mark.parametrize("text", ANSWERS)
def test_ordinary_answer_with_words_of_a_refusal_is_kept(text):
    assert kept("refusal", text) == [0]


def test_refusal_phrases_ignore_case_and_must_not_be_empty():
    assert kept("refusal", "I Won’t do it.", phrases=["I Won't do"]) == []
    with pytest.raises(ValidationError, match="at least one character"):
        kept("refusal", "Yes.", phrases=[" "])


TWINS = [
    ("Café au lait is good", "Cafe\u0301 au lait is good"),
    ("ＡＢＣ\u3000ｄｅｆ", "ABC def"),
    ("“Hello,” she said to them all", '"Hello," she said to them all'),
    ("don't do that now", "don’t do that now"),
    ("答案是四因为二加二等于四", "答案是四，因为二加二等于四。"),
    ("答えは四です。二足す二は四だからです", "答えは四です。二足す二は四だからです！"),
    ("คำตอบคือสี่เพราะสองบวกสองเท่ากับสี่", "คำตอบคือสี่เพราะสองบวกสองเท่ากับสี่ "),
]
STRANGERS = [
    ("x²", "x2"),
    ("-4", "4"),
    ("4,5", "4.5"),
    ("The answer is 4.", "The answer is 5."),
    ("答案是四因为二加二等于四", "答案是五因为二加三等于五"),
    ("คำตอบคือสี่เพราะสองบวกสองเท่ากับสี่", "คำตอบคือห้าเพราะสองบวกสามเท่ากับห้า"),
]


@pytest.mark.parametrize("pair", TWINS)
def test_texts_that_differ_only_in_spelling_of_characters_are_duplicates(pair):
    assert kept("duplicates", *pair) == [0]


@pytest.mark.parametrize("pair", STRANGERS)
def test_texts_with_different_meanings_are_not_duplicates(pair):
    assert kept("duplicates", *pair) == [0, 1]


BROKEN = ["naÃ¯ve", "Â£5", "â€œquoteâ€\x9d", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "æ–‡å­—", "ðŸ˜€", "\ufffd", "bell\x07"]
WHOLE = [
    "naïve café",
    "SÃO PAULO",
    "CAFÉ» et «É»",
    "à\u00a0«\u00a0Paris\u00a0» voilà\u00a0»",
    "été\u00a0: “oui” – dash… €",
    "👩‍👩‍👧",
    "\u200fשלום",
]


@pytest.mark.parametrize("text", BROKEN)
def test_wrongly_decoded_text_is_removed(text):
    assert kept("encoding", text) == []


@pytest.mark.parametrize("text", WHOLE)
def test_correct_text_of_any_language_is_kept(text):
    assert kept("encoding", text) == [0]
