"""Tasks of the library's environments (apps.environments.library): the rules, and the seed that
each is reset with.
"""

from collections.abc import Callable, Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

RULES = {
    "calculator": (
        "Work it out. calc(2*3) asks the calculator; say answer and the number when you know it."
    ),
    "code_repair": (
        "This function has a mistake. Write all of it again, repaired, and nothing else."
    ),
    "grid_world": "You are @. Go to G around the walls #. Say up, down, left or right.",
    "guess_number": "I think of a number from 1 to 16. Say a number; I say higher, lower or yes.",
    "picture_question": "Look at the picture, a letter a pixel, and answer the question about it.",
}


def generator(name: str) -> Callable[[int, int], Iterator[TaskRow]]:
    """Yield `generate(size, seed)` of this environment's tasks."""

    def generate(size: int, seed: int) -> Iterator[TaskRow]:
        """Yield different seeds; `meta` has what the environment is reset with."""
        for episode_seed in draw_distinct(2**31, size, seed):
            yield TaskRow(
                user_message(RULES[name]), {}, {"environment": name, "seed": episode_seed}
            )

    return generate
