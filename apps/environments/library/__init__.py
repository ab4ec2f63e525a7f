"""Environments of our own, by name: pure Python classes that are reset, stepped and closed (protocol.py)."""

from apps.environments.library.calculator import Calculator
from apps.environments.library.code_repair import CodeRepair
from apps.environments.library.grid_world import GridWorld
from apps.environments.library.guess_number import GuessNumber
from apps.environments.library.picture_question import PictureQuestion
from apps.environments.library.protocol import LibraryEnvironment

ENVIRONMENTS: dict[str, type[LibraryEnvironment]] = {
    "calculator": Calculator,
    "code_repair": CodeRepair,
    "grid_world": GridWorld,
    "guess_number": GuessNumber,
    "picture_question": PictureQuestion,
}
