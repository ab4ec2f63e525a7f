"""Dataset sources of plugins: rows from wherever their code finds them.

`rows(place, options)` yields a dictionary for each row, which the layouts of apps.tasksets.layouts
then read as they read a file's.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from apps.accounts.public_text import public_text
from apps.plugins.guarded_calls import guarded_rows
from apps.plugins.kinds import DATASET_SOURCE
from apps.plugins.parts import kind_of_parts
from apps.plugins.registry import REGISTRY

REGISTRY.register(
    kind_of_parts(
        DATASET_SOURCE,
        "rftweb.dataset_sources",
        "rows",
        ("place", "options"),
        guard=guarded_rows,
    )
)


class SourceFailed(ValueError):
    """Raised for a source that is not there, refuses its options, or raises."""


def lines_from_plugin(name: str, place: str, given_options: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the rows of a plugin's source as JSON lines. Raises SourceFailed."""
    try:
        part = REGISTRY.find(DATASET_SOURCE, name)
        options = part.read_options(given_options)
    except LookupError as missing:
        raise SourceFailed(str(missing)) from None
    except ValidationError as bad:
        problems = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in bad.errors()
        )
        raise SourceFailed("; ".join(problems)) from None
    number = 0
    try:
        for row in part.call(place, options):
            number += 1  # counted by hand: the error below names the row
            if not isinstance(row, dict):
                raise TypeError(f"is {type(row).__name__}, not a dictionary of columns")
            yield json.dumps(row, allow_nan=False).encode()
    except Exception as error:  # others' code
        what = f"{type(error).__name__}: {public_text(error)}"
        raise SourceFailed(f"{name}, row {number}: {what}") from error
