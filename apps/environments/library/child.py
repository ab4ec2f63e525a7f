"""The process that plays library environments: reads a question a line, writes what follows a line. No Django, no database.

A question: `episode`, `name`, `seed`, `options`, `actions` (all that was done so far); what is asked is what follows the last
of them. It keeps its episodes; one that it does not know it plays again from its actions. `close` in place of `actions` ends one.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable

from apps.environments.library import ENVIRONMENTS
from apps.environments.library.protocol import LibraryEnvironment, Step

PR_SET_PDEATHSIG = 1


def named(name: str) -> LibraryEnvironment:
    return ENVIRONMENTS[name]()


def main(memory_bytes: int, make: Callable[[str], LibraryEnvironment] = named) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an environment prints is no answer
    plays = Plays(make)
    for line in sys.stdin.buffer:
        if answer := plays.answer(json.loads(line)):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


class Plays:
    """The episodes under way, each with how many actions it has had."""

    def __init__(self, make: Callable[[str], LibraryEnvironment] = named) -> None:
        self.make = make
        self.under_way: dict[int, tuple[LibraryEnvironment, int]] = {}

    def answer(self, asked: dict) -> dict | None:
        episode = asked["episode"]
        try:
            if "close" in asked:
                self._close(episode)
                return None
            step = self._follow(asked)
            return {
                "episode": episode, "number": len(asked["actions"]), "observation": step.observation, "reward": step.reward,
                "done": step.done, "info": step.info,
            }  # fmt: skip
        except Exception as error:  # the loop around one unit of work: whatever went wrong belongs to this episode
            self.under_way.pop(episode, None)
            return {"episode": episode, "error": f"{type(error).__name__}: {error}"[:300]}

    def _follow(self, asked: dict) -> Step:
        episode, actions = asked["episode"], asked["actions"]
        environment, had = self.under_way.pop(episode, (None, -1))
        step = None
        if had != len(actions) - 1 or environment is None:
            environment, had = self.make(asked["name"]), 0
            step = Step(environment.reset(asked["seed"], asked["options"]), None, False)
        for action in actions[had:]:
            step = environment.step(action)
        self.under_way[episode] = environment, len(actions)
        return step

    def _close(self, episode: int) -> None:
        environment, _ = self.under_way.pop(episode, (None, 0))
        if environment is not None:
            environment.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
