"""Answers in unusual form get the reward that a person would give: right ones, wrong ones that
look right, hedges, lists of everything, and repetitions of the question.
"""

from itertools import chain

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from tests.rewards.odd_answers import (
    bounding_boxes,
    chart_values,
    choices,
    counts,
    false_statements,
    formulas,
    grids,
    instructions,
    measures,
    more_boxes,
    more_chart_values,
    more_choices,
    more_counts,
    more_formulas,
    more_measures,
    more_short_answers,
    more_solutions,
    short_answers,
    solutions,
    tags,
)

TABLES = {
    "choice": choices,
    "chemistry": formulas,
    "counting": counts,
    "format": tags,
    "grid": grids,
    "grounding": bounding_boxes,
    "instructions": instructions,
    "math": solutions,
    "quantity": measures,
    "relaxed_number": chart_values,
    "short_answer": short_answers,
}
MORE = (
    ("choice", false_statements),
    ("choice", more_choices),
    ("chemistry", more_formulas),
    ("counting", more_counts),
    ("grounding", more_boxes),
    ("math", more_solutions),
    ("quantity", more_measures),
    ("relaxed_number", more_chart_values),
    ("short_answer", more_short_answers),
)
CASES = list(
    chain.from_iterable(
        [(name, *row) for row in table.ROWS] for name, table in (*TABLES.items(), *MORE)
    )
)


def worth(scorer: str, answer: object, reply: str, options: dict, prompt: str) -> float | None:
    fields = answer if isinstance(answer, dict) else {"value": answer}
    asked = [{"role": "user", "content": prompt}] if prompt else ()
    [verdict] = find_scorer(scorer).judge([RolloutView(reply)], TaskView(asked, fields), options)
    return verdict.value


@pytest.mark.parametrize("scorer", TABLES)
def test_each_answer_of_the_table_gets_its_listed_value(scorer):
    cases = [row for name, *row in CASES if name == scorer]
    differ = []
    for answer, reply, expected, *more in cases:
        options, prompt = (*more, *({}, "")[len(more) :])
        value = worth(scorer, answer, reply, options, prompt)
        if value != (expected if expected is None else pytest.approx(expected, abs=0.005)):
            differ.append((answer, reply, expected, value))
    assert not differ
