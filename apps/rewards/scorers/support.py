"""Scores an English support reply: polite, on topic, one or two sentences, no invented facts.

Each of the four gives a quarter; a reply that is neither polite nor on topic gets nothing. They are
rules that a machine can check, so a policy can satisfy them without helping anybody: "We are sorry
about the kettle." What people say about the replies counts beside them.
"""

import re
from dataclasses import dataclass

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

MAX_REPLY_LENGTH = 4_000  # characters; what is longer is not read
MAX_SENTENCES = 2
MIN_WORDS = 5
MAX_WORDS = 45
COURTESIES = (
    "sorry",
    "apologize",
    "apologise",
    "apologies",
    "thank you",
    "thanks",
    "please",
    "happy to",
    "glad to",
    "gladly",
    "appreciate",
    "welcome",
    "pleasure",
)
RUDE_WORDS = frozenset(
    {"stupid", "idiot", "silly", "fault", "shut", "hell", "damn", "whining", "nonsense", "liar"}
)
NUMBER_WORDS = (
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "twelve",
    "twenty",
    "thirty",
    "fifty",
    "hundred",
    "thousand",
)
TIMES = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "tomorrow",
    "yesterday",
    "tonight",
)
INVENTED_WORDS = frozenset({*NUMBER_WORDS, *TIMES})
# Digits, prices, addresses, and blanks that a template leaves to be filled in: [Your Name].
INVENTED_SIGNS = re.compile(r"[0-9$€£@%\[\]<>{}#]|https?:|www\.")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
NEAR_WORDS = 3  # words in a row that a reply says only once


@dataclass(frozen=True)
class Checks:
    """Results of the four rules for a reply."""

    polite: bool
    on_topic: bool
    short: bool
    nothing_invented: bool


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return a quarter for each rule that the reply keeps.

    The value is 0 if it is neither polite nor on topic.
    """
    product = task.answer.get("product")
    if not isinstance(product, str) or not product:
        return Verdict(None, "the task does not name the product")
    text = rollout.text.strip()
    if len(text) > MAX_REPLY_LENGTH:
        return Verdict(0.0, f"longer than {MAX_REPLY_LENGTH} characters")
    words = WORD.findall(text.lower())
    if not words:
        return Verdict(0.0, "the reply says nothing")
    checks = Checks(
        polite=_is_polite(text.lower(), words),
        on_topic=_names(product, words),
        short=rollout.stop_reason != "length" and _is_short(text, words),
        nothing_invented=not INVENTED_SIGNS.search(text) and not INVENTED_WORDS & set(words),
    )
    results = vars(checks)
    value = sum(results.values()) / len(results) if checks.polite or checks.on_topic else 0.0
    return Verdict(value, _reason(checks, product), dict(results))


def _is_polite(text: str, words: list[str]) -> bool:
    return any(courtesy in text for courtesy in COURTESIES) and not RUDE_WORDS & set(words)


def _names(product: str, words: list[str]) -> bool:
    return product in words or f"{product}s" in words or f"{product}'s" in words


def _is_short(text: str, words: list[str]) -> bool:
    """Tell whether the text is one or two whole sentences in one paragraph that repeat nothing."""
    ends = list(SENTENCE_END.finditer(text))
    is_whole = bool(ends) and ends[-1].end() == len(text)
    runs = [tuple(words[n : n + NEAR_WORDS]) for n in range(len(words) - NEAR_WORDS + 1)]
    return (
        is_whole
        and len(ends) <= MAX_SENTENCES
        and "\n" not in text
        and MIN_WORDS <= len(words) <= MAX_WORDS
        and len(set(runs)) == len(runs)
    )


def _reason(checks: Checks, product: str) -> str:
    """Return the most serious problem first."""
    if not checks.on_topic:
        return f"does not name the {product}"
    if not checks.polite:
        return "not polite"
    if not checks.nothing_invented:
        return "invents numbers, times or addresses"
    if not checks.short:
        return f"not one or two complete sentences of {MIN_WORDS} to {MAX_WORDS} words"
    return "polite, on topic and short"
