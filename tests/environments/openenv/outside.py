"""The openenv package's own client, run by the virtual environment of the openenv extra: plays two
episodes and prints the results.

.venv-openenv/bin/python tests/environments/openenv/outside.py ADDRESS TOKEN
"""

import json
import sys

from openenv.core.generic_client import GenericEnvClient

ADDRESS, TOKEN = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def guess() -> dict:
    """Guess by halving until it is right."""
    low = 1
    high = 16
    said = []
    with GenericEnvClient(
        f"{ADDRESS}/openenv/lab/guess_number", headers=HEADERS
    ).sync() as environment:
        result = environment.reset(seed=3, episode_id="halves")
        while not result.done:
            number = (low + high) // 2
            result = environment.step({"action": str(number)})
            said.append(result.observation["text"])
            low, high = (number + 1, high) if said[-1] == "higher" else (low, number - 1)
        return {"said": said, "reward": result.reward, "state": environment.state()}


def cross() -> dict:
    """Cross the ice on the known way."""
    with GenericEnvClient(
        f"{ADDRESS}/openenv/lake", headers=HEADERS, message_timeout_s=120
    ).sync() as environment:
        environment.reset(seed=1)
        for move in ("down", "down", "right", "right", "down", "right"):
            result = environment.step({"action": move})
        return {"reward": result.reward, "done": result.done, "metadata": result.metadata}


print(json.dumps({"guess": guess(), "cross": cross()}))
