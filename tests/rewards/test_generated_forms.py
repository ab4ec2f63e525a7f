"""Generated boxes, grids, formulas and counts are right in every notation; others are wrong."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from apps.rewards.instructions import follows
from apps.rewards.scorers import RolloutView, TaskView, find_scorer

EDGES = some.tuples(*[some.integers(0, 400)] * 2, *[some.integers(1, 400)] * 2)
BOXES = EDGES.map(lambda edge: (edge[0], edge[1], edge[0] + edge[2], edge[1] + edge[3]))
WAYS_OF_BOXES = (
    "[{0}, {1}, {2}, {3}]",
    "({0}, {1}), ({2}, {3})",
    "{0}, {1}, {2}, {3}",
    "<box><{0}><{1}><{2}><{3}></box>",
    "<|box_start|>({0},{1}),({2},{3})<|box_end|>",
    '{{"bbox_2d": ["{0}", "{1}", "{2}", "{3}"]}}',
    '{{"xmin": {0}, "ymin": {1}, "xmax": {2}, "ymax": {3}}}',
    "[[{0}, {1}], [{2}, {1}], [{2}, {3}], [{0}, {3}]]",
    "[{0}px, {1}px, {2}px, {3}px]",
)
SIZES = some.tuples(some.integers(1, 5), some.integers(2, 5))
GRIDS = SIZES.flatmap(
    lambda size: some.lists(
        some.lists(some.integers(0, 9), min_size=size[1], max_size=size[1]),
        min_size=size[0],
        max_size=size[0],
    )
)


def worth(scorer: str, answer: dict, reply: str) -> float | None:
    return find_scorer(scorer).judge([RolloutView(reply)], TaskView((), answer))[0].value


@pytest.mark.parametrize("way", WAYS_OF_BOXES)
@settings(max_examples=30, deadline=None)
@given(box=BOXES)
def test_box_gets_the_full_reward_in_every_notation(way, box):
    assert worth("grounding", {"box": list(box)}, way.format(*box)) == pytest.approx(1)


@pytest.mark.parametrize("way", WAYS_OF_BOXES[:2])
@settings(max_examples=30, deadline=None)
@given(box=BOXES)
def test_denied_box_gets_no_reward(way, box):
    assert worth("grounding", {"box": list(box)}, f"It is not at {way.format(*box)}.") == 0


@settings(max_examples=60, deadline=None)
@given(grid=GRIDS)
def test_grid_gets_the_same_reward_as_json_and_as_lines(grid):
    lines = "\n".join(" ".join(map(str, line)) for line in grid)
    for reply in (json.dumps(grid), f"```\n{lines}\n```", f"So it is:\n{lines}"):
        assert worth("grid", {"grids": [grid]}, reply) == 1
    other = [*grid[:-1], [*grid[-1][:-1], (grid[-1][-1] + 1) % 10]]
    assert worth("grid", {"grids": [grid]}, json.dumps(other)) == 0


@settings(max_examples=60, deadline=None)
@given(
    charge=some.integers(1, 4),
    sign=some.sampled_from("+-"),
    atoms=some.sampled_from(("SO4", "PO4", "NH4", "CrO4", "MnO4")),
)
def test_charge_may_be_written_before_or_after_its_number(charge, sign, atoms):
    wanted = {"value": f"{atoms}^{{{charge}{sign}}}"}
    ways = (f"{atoms}^{charge}{sign}", f"{atoms}^{{{sign}{charge}}}", f"[{atoms}]{charge}{sign}")
    for way in (*ways, f"{atoms}<sup>{charge}{sign}</sup>", f"{atoms}({charge}{sign})"):
        assert worth("chemistry", wanted, way) == 1
    other = "-" if sign == "+" else "+"
    assert worth("chemistry", wanted, f"{atoms}^{charge}{other}") == 0
    assert worth("chemistry", wanted, f"{atoms}^{charge + 1}{sign}") == 0


@settings(max_examples=60, deadline=None)
@given(count=some.integers(1, 12))
def test_constraints_accept_the_exact_count_and_refuse_one_less(count):
    made = {
        "length_constraints:number_words": (" ".join(["word"] * count), "num_words"),
        "length_constraints:number_sentences": (" ".join(["It rains."] * count), "num_sentences"),
        "length_constraints:number_paragraphs": ("\n***\n".join("a" * count), "num_paragraphs"),
        "detectable_format:number_bullet_lists": ("\n".join(["* a"] * count), "num_bullets"),
        "change_case:capital_word_frequency": (" ".join(["NO"] * count), "capital_frequency"),
    }
    for name, (reply, field) in made.items():
        exactly = {"relation": "exactly", "capital_relation": "exactly"}
        assert follows(name, {field: count, **exactly}, reply)
        assert not follows(name, {field: count + 1, **exactly}, reply)
