"""Measure how often the scorers are right on answers that are right or wrong by construction.

    .venv/bin/python -m bench.graders            # a table by scorer and class
    .venv/bin/python -m bench.graders --library  # and math-verify alone on the same pairs

A false payment is a wrong answer that is paid, a false refusal a right one that is not; both with
95 % intervals of Wilson. Milliseconds are of processor time, which other work on the machine
stretches less than the clock. The last line is JSON.
"""

import argparse
import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.statistics.intervals import wilson
from bench.answer_pairs import SEED, Pair, draw_pairs

TARGET = 0.99
Judge = Callable[[Pair], float | None]


@dataclass(frozen=True)
class Judged:
    """Judgement of a pair by a judge, and the processor time that it took."""

    pair: Pair
    value: float | None
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.value is not None and (self.value == 1.0) == self.pair.is_right


@dataclass(frozen=True)
class Figures:
    """A line of the table."""

    pairs: int
    right: int
    wrong_answers: int
    false_payments: int
    right_answers: int
    false_refusals: int
    nulls: int
    milliseconds: float

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> "Figures":
        wrong = [judgement for judgement in judged if not judgement.pair.is_right]
        right = [judgement for judgement in judged if judgement.pair.is_right]
        return cls(
            pairs=len(judged),
            right=sum(judgement.is_right for judgement in judged),
            wrong_answers=len(wrong),
            false_payments=sum(judgement.value == 1.0 for judgement in wrong),
            right_answers=len(right),
            false_refusals=sum(
                judgement.value is not None and judgement.value != 1.0 for judgement in right
            ),
            nulls=sum(judgement.value is None for judgement in judged),
            milliseconds=1000
            * sum(judgement.seconds for judgement in judged)
            / max(1, len(judged)),
        )

    @property
    def accuracy(self) -> float:
        return self.right / self.pairs

    def cells(self) -> list[str]:
        return [
            str(self.pairs),
            f"{self.accuracy:.1%}",
            _share(self.false_payments, self.wrong_answers),
            _share(self.false_refusals, self.right_answers),
            str(self.nulls),
            f"{self.milliseconds:.1f}",
        ]


def _share(hits: int, of: int) -> str:
    interval = wilson(hits, of)
    if interval is None:
        return "–"
    low, high = (f"{100 * end:.1f}" for end in interval)
    return f"{hits} of {of} ({low}–{high} %)"


def by_scorer(pair: Pair) -> float | None:
    """Judge as a run does."""
    from apps.rewards.scorers import RolloutView, TaskView, find_scorer

    answer = pair.reference if isinstance(pair.reference, dict) else {"value": pair.reference}
    prompt = [{"role": "user", "content": pair.question}] if pair.question else ()
    return (
        find_scorer(pair.scorer)
        .judge([RolloutView(pair.response)], TaskView(prompt, answer))[0]
        .value
    )


def by_library(pair: Pair) -> float | None:
    """Judge by math-verify alone, which sees no question; NULL where it reads no reference."""
    from math_verify import parse, verify

    reference = parse(f"\\boxed{{{pair.reference}}}", parsing_timeout=None)
    if not reference:
        return None
    parsed = parse(pair.response, parsing_timeout=None)
    return float(verify(reference, parsed, timeout_seconds=None))


def judge_pairs(judge: Judge, drawn: Sequence[Pair]) -> list[Judged]:
    judged = []
    for pair in drawn:
        began = time.process_time()
        try:
            value = judge(pair)
        except Exception:  # a judge that raises has judged nothing
            value = None
        judged.append(Judged(pair, value, time.process_time() - began))
    return judged


def misjudged(drawn: Sequence[Pair]) -> list[Pair]:
    """List the pairs that their scorer judges otherwise than they were made."""
    return [judgement.pair for judgement in judge_pairs(by_scorer, drawn) if not judgement.is_right]


def print_class_table(judged: Sequence[Judged], name: str) -> dict[str, Figures]:
    """Print a table by class, and give its lines."""
    lines: dict[str, list[Judged]] = defaultdict(list)
    for judgement in judged:
        lines[f"{judgement.pair.scorer}: {judgement.pair.category}"].append(judgement)
    lines["all"] = list(judged)
    figures = {line: Figures.of(class_figures) for line, class_figures in lines.items()}
    print(f"| {name} | pairs | right | paid though wrong | refused though right | NULL | ms |")
    print("|---|---|---|---|---|---|---|")
    for line, class_figures in figures.items():
        print(f"| {line} | {' | '.join(class_figures.cells())} |")
    print()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--library", action="store_true", help="math-verify on the same pairs")
    options = parser.parse_args()
    drawn = draw_pairs(options.seed)
    judge_pairs(
        by_scorer, drawn[:: max(1, len(drawn) // 20)]
    )  # what is loaded first is not counted
    ours = judge_pairs(by_scorer, drawn)
    figures = print_class_table(ours, "scorers")
    summary = {"pairs": len(drawn), "accuracy": round(figures["all"].accuracy, 4)}
    if options.library:
        logging.disable(logging.WARNING)
        mathematics = [pair for pair in drawn if pair.scorer == "math"]
        judge_pairs(by_library, mathematics[:3])
        library = print_class_table(judge_pairs(by_library, mathematics), "math-verify alone")
        summary |= {"library": round(library["all"].accuracy, 4)}
    for judgement in ours:
        if not judgement.is_right:
            print(f"misjudged: {judgement.pair} got {judgement.value}")
    print(json.dumps(summary))
    return 0 if figures["all"].accuracy >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
