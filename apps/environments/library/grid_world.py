"""A small grid described in text: find the way to the goal, around the walls."""

import random
import re
from collections import deque
from typing import ClassVar

from apps.environments.library.protocol import Step

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
WORD = re.compile("|".join(MOVES))
STEP_COST = 0.01
Square = tuple[int, int]


class GridWorld:
    """A grid; an action is one word.

    The goal earns 1, every move costs 0.01, and running into a wall costs a move. Options: `size`
    (3 to 12), `walls` (share).
    """

    title: ClassVar = "Grid world"
    reward_low: ClassVar = -STEP_COST
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 24
    turn_s: ClassVar = 2.0

    def reset(self, seed: int, options: dict) -> str:
        size = options.get("size", 4)
        share = options.get("walls", 0.2)
        if not (
            isinstance(size, int)
            and 3 <= size <= 12
            and isinstance(share, int | float)
            and 0 <= share <= 0.5
        ):
            raise ValueError(
                f"size must be from 3 to 12 and walls from 0 to 0.5, not {size!r} and {share!r}"
            )
        self.size, draw = size, random.Random(seed)
        squares = [(row, column) for row in range(size) for column in range(size)]
        while True:  # at least half of all squares are free, so a path is soon found
            self.here, self.goal, *other_squares = draw.sample(squares, len(squares))
            self.walls = set(other_squares[: int(share * len(squares))])
            if self._is_reachable():
                return self._render_grid()

    def step(self, action: str) -> Step:
        match = WORD.search(action.lower())
        if match is None:
            return Step(f"say up, down, left or right\n{self._render_grid()}", -STEP_COST, False)
        down, right = MOVES[match[0]]
        target = self.here[0] + down, self.here[1] + right
        if self._is_free(target):
            self.here = target
        if self.here == self.goal:
            return Step("you are there", 1.0, True)
        return Step(self._render_grid(), -STEP_COST, False)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _is_free(self, square: Square) -> bool:
        return all(0 <= place < self.size for place in square) and square not in self.walls

    def _is_reachable(self) -> bool:
        reached = {self.here}
        ahead = deque([self.here])
        while ahead:
            row, column = ahead.popleft()
            for down, right in MOVES.values():
                square = row + down, column + right
                if self._is_free(square) and square not in reached:
                    reached.add(square)
                    ahead.append(square)
        return self.goal in reached

    def _render_grid(self) -> str:
        return "\n".join(
            " ".join(self._mark((row, column)) for column in range(self.size))
            for row in range(self.size)
        )

    def _mark(self, square: Square) -> str:
        if square == self.here:
            return "@"
        if square == self.goal:
            return "G"
        return "#" if square in self.walls else "."
