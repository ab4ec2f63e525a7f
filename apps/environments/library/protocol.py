"""The protocol of library environments: a class with reset, step and close.

Pure Python, and deterministic for each seed.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

Observation = str | list[dict]


@dataclass(frozen=True)
class Step:
    """The result of an action: the next observation, the reward, whether the episode is over."""

    observation: Observation
    reward: float | None
    done: bool
    info: dict = field(default_factory=dict)


class PlayedEnvironment(Protocol):
    """An environment; one instance plays one episode.

    Its replies must depend only on seed, options and actions: the episode is replayed from them if
    its process was killed because of another episode.
    """

    def reset(self, seed: int, options: dict) -> Observation:
        """Begin the episode. Raises ValueError naming an invalid option."""

    def step(self, action: str) -> Step:
        """Return the result of the policy's text.

        A meaningless text gets an answer, not an exception.
        """

    def close(self) -> None:
        """Release resources."""


class LibraryEnvironment(PlayedEnvironment, Protocol):
    """An environment of the library or of a plugin, which describes itself."""

    title: ClassVar[str]
    reward_low: ClassVar[float]
    reward_high: ClassVar[float]
    turn_limit: ClassVar[int]
    turn_s: ClassVar[float]
