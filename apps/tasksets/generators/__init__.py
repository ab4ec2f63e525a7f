"""Seeded task generators, found by name: the same name, size and seed give the same tasks for ever."""

import difflib
from collections.abc import Callable, Iterator
from types import ModuleType

from apps.tasksets.generators import (
    arithmetic,
    charts,
    countdown,
    drawings,
    geometry,
    grounding,
    k12,
    katas,
    math,
    pages,
    played,
    shapes,
    sort,
    sums,
    support,
    text_render,
    tone,
    tone_dialogue,
)
from apps.tasksets.rows import TaskRow

Generate = Callable[[int, int], Iterator[TaskRow]]

GENERATORS: dict[str, Generate] = {
    "arithmetic": arithmetic.generate,
    "charts": charts.generate,
    "countdown": countdown.generate,
    "drawings": drawings.generate,
    "geometry": geometry.generate,
    "grounding": grounding.generate,
    "k12": k12.generate,
    "math": math.generate,
    "pages": pages.generate,
    "shapes": shapes.generate,
    "katas": katas.generate,
    "katas_untested": katas.generate_untested,
    "sort": sort.generate,
    "sums": sums.generate,
    "support": support.generate,
    "text_render": text_render.generate,
    "tone": tone.generate,
    "tone_dialogue": tone_dialogue.generate,
    **{name: played.generator(name) for name in played.RULES},
}

# Scorers that say what a wrong answer has reached (`details["reached"]` of their verdicts), and the generator whose template asks
# for it: `asking_for(row, reached)`.
REACHED_BY: dict[str, ModuleType] = {"arithmetic": arithmetic, "countdown": countdown}


def find(name: str) -> Generate:
    """`generate(size, seed)` of that name; raises LookupError naming the nearest one."""
    if name in GENERATORS:
        return GENERATORS[name]
    near = difflib.get_close_matches(name, GENERATORS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(GENERATORS)}"
    raise LookupError(f"no task generator {name!r}; {hint}")
