"""Tables of answers to mathematics with places for values.

A row is (wanted answer, answer, whether it is right); `<name>` stands for the value of that name.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence

Drawn = Iterator[tuple[str, str, bool]]
Rule = Callable[[random.Random], Drawn]
PLACE = re.compile(r"<(\w+)>")


def filled(rows: Sequence[tuple[str, str, bool]], **values: object) -> Drawn:
    """Yield the rows with their places filled in."""

    def fill(text: str) -> str:
        return PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)

    for reference, answer, is_right in rows:
        yield fill(reference), fill(answer), is_right
