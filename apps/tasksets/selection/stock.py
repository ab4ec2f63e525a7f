"""Tasks that a draw may choose from.

They are the tasks of a set without the excluded ones and, while there are others, without those
under way.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from apps.tasksets.selection.chance import below

MAX_TRIES = 1_000


class Stock:
    """Tasks 0 to size − 1, and how often each is under way: drawn, and without a verdict.

    A task is refused while another that may be drawn is under way less often. So what a draw may
    take follows from what is under way alone, however many draws were made together.
    """

    def __init__(
        self, size: int, left_out: Iterable[int] = (), under_way: Mapping[int, int] | None = None
    ) -> None:
        """Keep track of the tasks to draw from. Raises ValueError if none is left."""
        self.size = size
        self.left_out = frozenset(index for index in left_out if index < size)
        if len(self.left_out) >= size:
            raise ValueError(
                "there is nothing to sample: the taskset is empty or all of its tasks are excluded"
            )
        self.under_way = Counter(
            {index: n for index, n in (under_way or {}).items() if index not in self.left_out}
        )
        self.level = 0
        self.busy: set[int] = set()
        self._raise_level()

    def refuses(self, index: int) -> bool:
        return index in self.left_out or index in self.busy

    @property
    def refused(self) -> frozenset[int]:
        return self.left_out | self.busy

    def take(self, index: int) -> int:
        """Mark the index as drawn, and return it."""
        self.under_way[index] += 1
        if self.under_way[index] > self.level:
            self.busy.add(index)
        if len(self.busy) + len(self.left_out) >= self.size:
            self._raise_level()
        return index

    def anyone(self, *key: object, without: Container[int] = ()) -> int:
        """Return a uniformly chosen index that is neither refused nor in `without`.

        It depends on the key alone; at least one index must be left.
        """
        for n in range(MAX_TRIES):
            index = below(self.size, *key, n)
            if not self.refuses(index) and index not in without:
                return index
        # Nearly all are refused: there are few others, so list them.
        allowed = [
            index for index in range(self.size) if not self.refuses(index) and index not in without
        ]
        return allowed[below(len(allowed), *key, "left")]

    def _raise_level(self) -> None:
        """Find those that are under way more often than the least busy one."""
        self.busy = {index for index, times in self.under_way.items() if times > self.level}
        while len(self.busy) + len(self.left_out) >= self.size:
            self.level += 1
            self.busy = {index for index, times in self.under_way.items() if times > self.level}
