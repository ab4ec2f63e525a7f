"""Session in a separate process: library environments, and Gymnasium's.

The process outlives an episode. The next `begin` reuses it, or starts another one if it has ended.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, Process

from apps.environments.library.process import CHILD, MAX_REPLY_LENGTH, command, surroundings
from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull import gymnasium
from apps.environments.pull.errors import CallFailed


class ProcessSession:
    """Session for one episode after the other.

    It has no time limit of its own; a caller that gives up closes it.
    """

    def __init__(self, environment: Environment) -> None:
        self.name = environment.address or environment.name
        self.module = gymnasium.MODULE if environment.kind == Environment.Kind.GYMNASIUM else CHILD
        self.process: Process | None = None
        self.move: dict = {}

    async def begin(self, episode: int, seed: int, options: dict) -> Step:
        if self.process is None or self.process.returncode is not None:
            self.process = await asyncio.create_subprocess_exec(
                *command(self.module),
                stdin=PIPE,
                stdout=PIPE,
                env=surroundings(),
                limit=MAX_REPLY_LENGTH,
            )
        elif self.move:
            self._send({"episode": self.move["episode"], "close": True})
        self.move = {
            "episode": episode,
            "name": self.name,
            "seed": seed,
            "options": options,
            "actions": [],
        }
        return await self._exchange_step()

    async def step(self, text: str) -> Step:
        self.move["actions"].append(text)
        return await self._exchange_step()

    async def close(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.process = None

    def _send(self, request: dict) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")

    async def _exchange_step(self) -> Step:
        process = self.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            self._send(self.move)
            await process.stdin.drain()
            line = await process.stdout.readline()
        except OSError as error:
            raise CallFailed(f"could not send the request to its process: {error}") from None
        except ValueError:
            raise CallFailed(f"its response is longer than {MAX_REPLY_LENGTH} bytes") from None
        if not line.endswith(b"\n"):
            raise CallFailed(f"its process ended with {await process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise CallFailed(reply["error"])
        return Step(reply["observation"], reply["reward"], reply["done"], reply["info"])
