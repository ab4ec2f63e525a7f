"""Seeded task generators, found by name: the same name, size and seed give the same tasks for
ever.

Ours are the modules of this package; others' come from plugins (apps.plugins): modules with a
`generate(size, seed)`, whose docstring says what they make.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType

from apps.plugins.contract import problems_of_call, problems_of_head
from apps.plugins.guarded_calls import guarded_rows
from apps.plugins.kinds import Kind, Refused
from apps.plugins.registry import REGISTRY
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

# Scorers that say what a wrong answer has reached (`details["reached"]` of their verdicts), and the
# generator whose template asks for it: `asking_for(row, reached)`.
REACHED_BY: dict[str, ModuleType] = {"arithmetic": arithmetic, "countdown": countdown}


KIND = "generator"


@dataclass(frozen=True)
class Generator:
    """Generator, and its version: 1 of ours, which never change."""

    generate: Generate
    version: int = 1


def generator_names() -> tuple[str, ...]:
    """Return the names of all generators, sorted: built-in ones, and plugins that can be used."""
    return REGISTRY.names(KIND)


def find_generator(name: str) -> Generate:
    """Return `generate(size, seed)` of that name; raises LookupError naming the nearest one."""
    return REGISTRY.find(KIND, name).generate


def read_generator_plugin(module: ModuleType, name: str) -> Generator:
    """Return the generator of somebody else's module. Raises Refused."""
    problems = [*problems_of_head(module), *problems_of_call(module, "generate", ("size", "seed"))]
    if hasattr(module, "Options"):
        problems.append("defines Options: generators have only the options size and seed")
    if problems:
        raise Refused("; ".join(problems))
    return Generator(guarded_rows(module.generate), getattr(module, "VERSION", 1))


def built_in_generators() -> Mapping[str, Callable[[], Generator]]:
    """Return the generators of this package by name, each with what makes it."""
    return {name: partial(Generator, generate) for name, generate in GENERATORS.items()}


REGISTRY.register(
    Kind(
        name=KIND,
        group="rftweb.generators",
        functions=("generate",),
        built_in=built_in_generators,
        read=read_generator_plugin,
        version=lambda generator: generator.version,
    )
)
