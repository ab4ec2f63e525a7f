"""Check of a task generator: seeded, and of tasks that can be stored."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from apps.accounts import strict_json
from apps.tasksets.generators import find_generator
from apps.tasksets.rows import TaskRow
from rftweb.testing.failures import find_plugin, open_plugin, require_none

SEED = 1


def check_generator(plugin: Path | str, size: int = 10) -> list[TaskRow]:
    """Return `size` tasks of the generator. Raises PluginFailed unless it keeps its contract.

    The same seed gives the same tasks, another seed others; each is a TaskRow with a prompt, and
    storable as JSON; a size of 0 is refused with ValueError.
    """
    with open_plugin(plugin) as name:
        generate = find_plugin(find_generator, name)
        try:
            rows = list(generate(size, SEED))
            problems = list(_problems(generate, rows, size))
        except Exception as error:  # the author is told whatever it is
            rows = []
            problems = [f"raises {type(error).__name__}: {error}"]
    require_none(name, problems)
    return rows


def _problems(generate: Callable, rows: list[TaskRow], size: int) -> Iterator[str]:
    if not all(isinstance(row, TaskRow) for row in rows):
        yield "makes what is no TaskRow"
        return
    if len(rows) != size:
        yield f"makes {len(rows)} tasks instead of {size}"
    if list(generate(size, SEED)) != rows:
        yield "makes other tasks of the same seed"
    if list(generate(size, SEED + 1)) == rows:
        yield "makes the same tasks of another seed"
    if any(not row.prompt for row in rows):
        yield "makes a task without a prompt"
    for row in rows:
        try:
            strict_json.decode_json(json.dumps([row.prompt, row.answer, row.meta], allow_nan=False))
        except (TypeError, ValueError) as error:
            yield f"makes a task that cannot be stored: {error}"
            break
    try:
        list(generate(0, SEED))
    except ValueError:
        return
    yield "accepts a size of 0: raise ValueError"
