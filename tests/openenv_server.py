"""An OpenEnv server for a game of guessing a number, run in the virtual environment of the openenv
extra.

.venv-openenv/bin/python tests/openenv_server.py SOCKET_NUMBER ROOM
"""

import socket
import sys
import time

import uvicorn
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    guess: str


class Answer(Observation):
    answer: str


class Guessing(Environment):
    """Guess the number that is the seed. `slow` gets a late answer, `crash` gets none."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.number, self.told = 5, State(episode_id="", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Answer:
        self.number, self.told = seed, State(episode_id=episode_id, step_count=0)
        return Answer(answer="guess", reward=0.0, done=False)

    def step(self, action: Guess) -> Answer:
        self.told.step_count += 1
        if action.guess == "slow":
            time.sleep(2)
        if action.guess == "crash":
            raise RuntimeError("out of luck")
        is_right = action.guess.strip().startswith(str(self.number))
        return Answer(
            answer="yes" if is_right else "no",
            reward=float(is_right),
            done=is_right,
            metadata={"n": self.told.step_count},
        )

    @property
    def state(self) -> State:
        return self.told


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    app = create_fastapi_app(Guessing, Guess, Answer, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
