"""Child process that plays Gymnasium's environments, by the protocol of library/child.py.

An observation is a text if the environment can render one, otherwise JSON. Actions are words if the
action space is discrete (`left`, or `0`), otherwise JSON that the action space contains. Only this
process imports Gymnasium.
"""

import json
import os
import re
import sys
from typing import Any

from apps.environments.library import child
from apps.environments.library.protocol import Step
from apps.environments.pull.wording import no_action

MODULE = "apps.environments.pull.gymnasium"
COLOURED = re.compile(r"\x1b\[([0-9;]*)m(.*?)\x1b\[0m", re.DOTALL)
# Terminal colours by the first digits of their number: filled, blue, magenta.
MARKS = {"4": "[{}]", "34": "({})", "35": "<{}>"}
WORDS = {
    "FrozenLake": ["left", "down", "right", "up"],
    "FrozenLake8x8": ["left", "down", "right", "up"],
    "CliffWalking": ["up", "right", "down", "left"],
    "Blackjack": ["stick", "hit"],
    "Taxi": ["south", "north", "east", "west", "pickup", "dropoff"],
}
CORNERS = ["red", "green", "yellow", "blue"]
# The reward range of one action, for environments with word actions; others must state it when
# registered.
RANGES = {
    "FrozenLake": (0, 1),
    "FrozenLake8x8": (0, 1),
    "CliffWalking": (-100, -1),
    "Blackjack": (-1, 1),
    "Taxi": (-10, 20),
}
OURS = {"render_mode", "id"}  # options that are not the environment's


def family(name: str) -> str:
    """Return the name without its version."""
    return name.rpartition("-v")[0]


class Gymnasium:
    """One episode of the environment of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reset(self, seed: int, options: dict) -> str:
        if refused_options := OURS & set(options):
            raise ValueError(f"options: {', '.join(sorted(refused_options))}: cannot be set")
        self.played = make_gymnasium(self.name, options)
        observation, _ = self.played.reset(seed=seed)
        return self._observation_text(observation)

    def step(self, text: str) -> Step:
        try:
            action = self._action(text)
        except ValueError as why:
            # In some environments 0 would be better than any move.
            lowest, _ = RANGES.get(family(self.name), (None, None))
            return Step(no_action(why), lowest, False)
        observation, reward, terminated, truncated, _ = self.played.step(action)
        info = {"terminated": bool(terminated), "truncated": bool(truncated)}
        return Step(
            self._observation_text(observation), float(reward), bool(terminated or truncated), info
        )

    def close(self) -> None:
        self.played.close()

    def _action(self, text: str) -> Any:
        """Parse the policy's action. Raises ValueError saying what is right."""
        from gymnasium.spaces import Discrete

        space = self.played.action_space
        if isinstance(space, Discrete):
            return _find_action(space, WORDS.get(family(self.name), []), text)
        try:
            action = _from_json(space, json.loads(text))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"say one of {space} in JSON ({error})") from None
        if not space.contains(action):
            raise ValueError(f"say one of {space} in JSON")
        return action

    def _observation_text(self, observation: Any) -> str:
        name = family(self.name)
        if name == "Blackjack":
            total, dealer, ace = observation
            return (
                f"you have {total}{' with a usable ace' if ace else ''}, the dealer shows {dealer}"
            )
        shows_text = self.played.render_mode == "ansi"
        text = (
            mark_terminal_colours(self.played.render())
            if shows_text
            else json.dumps(_to_json(self.played.observation_space, observation))
        )
        return (
            f"{text}\n{_taxi(*self.played.unwrapped.decode(int(observation)))}"
            if name == "Taxi"
            else text
        )


def make_gymnasium(name: str, options: dict) -> Any:
    """Return the environment of this name, one of Gymnasium's own.

    Raises ValueError: unknown, or it does not take these options.
    """
    import gymnasium

    if name not in gymnasium.registry:  # a name may otherwise make Gymnasium import a module
        raise ValueError(f"Gymnasium has no environment {name[:100]!r}")
    shows_text = "ansi" in _render_modes(gymnasium.spec(name))
    try:
        return gymnasium.make(name, render_mode="ansi" if shows_text else None, **options)
    except (TypeError, gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"{name} cannot be made: {error}") from None


def _render_modes(spec: Any) -> list[str]:
    import gymnasium

    try:
        maker = (
            spec.entry_point
            if callable(spec.entry_point)
            else gymnasium.envs.registration.load_env_creator(spec.entry_point)
        )
    except ImportError as error:
        raise ValueError(f"{spec.id} cannot be made: {error}") from None
    return getattr(maker, "metadata", {}).get("render_modes", [])


def mark_terminal_colours(text: str) -> str:
    """Replace terminal colours by marks."""
    return COLOURED.sub(_mark, text).strip("\n")


def _mark(match: re.Match) -> str:
    codes = match[1].split(";")
    shapes = [
        shape for code, shape in MARKS.items() for sent_code in codes if sent_code.startswith(code)
    ]
    return (shapes[0] if shapes else "{}").format(match[2])


def _taxi(row: int, column: int, passenger: int, goal: int) -> str:
    where = (
        f"the passenger waits at {CORNERS[passenger]}"
        if passenger < len(CORNERS)
        else "the passenger is in the taxi"
    )
    return f"the taxi is in row {row}, column {column}; {where} and wants to go to {CORNERS[goal]}"


def _find_action(space: Any, words: list[str], text: str) -> int:
    """Return the first word or number in the text that is an action."""
    lowest = int(space.start)
    action_count = int(space.n)
    for word in re.findall(r"[a-z]+|-?[0-9]{1,18}", text.lower()):
        if word in words:
            return lowest + words.index(word)
        if not word.isalpha() and lowest <= int(word) < lowest + action_count:
            return int(word)
    raise ValueError(
        f"say {', '.join(words)}"
        if words
        else f"say a number from {lowest} to {lowest + action_count - 1}"
    )


def _to_json(space: Any, value: Any) -> Any:
    """Convert a value of the space to JSON."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {name: _to_json(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return [_to_json(part, item) for part, item in zip(space.spaces, value, strict=True)]
    return space.to_jsonable([value])[0]


def _from_json(space: Any, value: Any) -> Any:
    """Convert JSON to a value of the space. Raises ValueError, TypeError, KeyError."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {name: _from_json(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_from_json(part, item) for part, item in zip(space.spaces, value, strict=True))
    return space.from_jsonable([value])[0]


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = (
        "1"  # each of its threads would take its share of the memory limit
    )
    child.main(int(sys.argv[1]), Gymnasium)
