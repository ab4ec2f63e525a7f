"""Write rows of one task together: its answer, its prompt, and replies that are right or wrong."""

from collections.abc import Sequence
from typing import Any


def rows(
    answer: Any,
    prompt: str,
    right: Sequence[str] = (),
    wrong: Sequence[str] = (),
    options: dict[str, Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Return a row for each reply."""
    paid = [(answer, reply, 1, options or {}, prompt) for reply in right]
    return paid + [(answer, reply, 0, options or {}, prompt) for reply in wrong]
