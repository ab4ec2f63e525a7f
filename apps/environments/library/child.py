"""The child process that plays library environments: one request per line, one reply per line.

It uses neither Django nor a database. A request has `episode`, `name`, `seed`, `options` and
`actions` (all actions so far); the reply is what follows the last of them. The process keeps its
episodes; one that it does not know is replayed from its actions. `close` in place of `actions` ends
one.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from apps.environments.library import find
from apps.environments.library.protocol import LibraryEnvironment, PlayedEnvironment, Step
from apps.plugins.loading import describe_error
from apps.plugins.registry import REGISTRY

PR_SET_PDEATHSIG = 1


def find_library_environment(name: str) -> LibraryEnvironment:
    return find(name)()


def main(
    memory_bytes: int, make: Callable[[str], PlayedEnvironment] = find_library_environment
) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an environment's output must not mix with replies
    plays = Plays(make)
    for line in sys.stdin.buffer:
        if answer := plays.answer(json.loads(line)):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


class Plays:
    """The open episodes, each with the number of its actions."""

    def __init__(self, make: Callable[[str], PlayedEnvironment] = find_library_environment) -> None:
        self.make = make
        self.under_way: dict[int, tuple[PlayedEnvironment, int]] = {}

    def answer(self, request: dict) -> dict | None:
        episode = request["episode"]
        try:
            if "close" in request:
                self._close(episode)
                return None
            step = self._follow(request)
            return {
                "episode": episode,
                "number": len(request["actions"]),
                "observation": step.observation,
                "reward": step.reward,
                "done": step.done,
                "info": step.info,
            }
        except (Exception, SystemExit) as error:
            # Any error belongs to this episode alone.
            self.under_way.pop(episode, None)
            return {"episode": episode, "error": describe_error(error)[:300]}

    def _follow(self, request: dict) -> Step:
        episode = request["episode"]
        actions = request["actions"]
        environment, turn_count = self.under_way.pop(episode, (None, -1))
        step: Step | None = None
        if turn_count != len(actions) - 1 or environment is None:
            environment = self.make(request["name"])
            turn_count = 0
            step = Step(environment.reset(request["seed"], request["options"]), None, False)
        for action in actions[turn_count:]:
            step = environment.step(action)
        assert step is not None  # a known episode has one action more than before
        self.under_way[episode] = environment, len(actions)
        return step

    def _close(self, episode: int) -> None:
        environment, _ = self.under_way.pop(episode, (None, 0))
        if environment is not None:
            environment.close()


if __name__ == "__main__":
    REGISTRY.use(Path(sys.argv[2]) if sys.argv[2:] and sys.argv[2] else None)
    main(int(sys.argv[1]))
