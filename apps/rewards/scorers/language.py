"""Pays the share of letters that are of the scripts asked for: answers in one language, without strays of another."""

import unicodedata
from collections import Counter

from pydantic import Field

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

LONGEST = 400_000  # characters that are looked at
SHOWN = 5  # other scripts named in the details


class Options(ScorerOptions):
    scripts: tuple[str, ...] = Field(("latin",), min_length=1, description="Of Unicode: latin, cyrillic, cjk, arabic, …")
    ascii: bool = Field(False, description="Only letters of ASCII are of the script; other signs than letters count, too.")
    at_least: float = Field(0.0, ge=0, le=1, description="A share below this one is worth nothing.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Letters of the scripts / all letters, from 0 to 1; 1 for an answer without letters, 0 for an empty one."""
    text = rollout.text[:LONGEST]
    if not text.strip():
        return Verdict(0.0, "nothing was said")
    signs = Counter(text)
    counted = {sign: times for sign, times in signs.items() if _counts(sign, options)}
    total = sum(counted.values())
    if not total:
        return Verdict(1.0, "it has no letters")
    wanted = {name.lower() for name in options.scripts}
    others: Counter[str] = Counter()
    for sign, times in counted.items():
        if not (sign.isascii() if options.ascii else _script(sign) in wanted):
            others[_script(sign)] += times
    share = 1 - others.total() / total
    details = {"share": round(share, 4), "others": dict(others.most_common(SHOWN))}
    return Verdict(share if share >= options.at_least else 0.0, f"{share:.0%} of it is of the scripts asked for", details)


def _counts(sign: str, options: Options) -> bool:
    return not sign.isspace() if options.ascii else sign.isalpha()


def _script(sign: str) -> str:
    """By its Unicode name, whose first word says the script of a letter."""
    return unicodedata.name(sign, "unknown").split()[0].partition("-")[0].lower()
