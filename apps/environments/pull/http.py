"""A session of a reset/step/close service: three POST requests in JSON.

    POST {address}/reset   {"session", "seed", "options"}
                           → {"observation"[, "session"][, "info"]}
    POST {address}/step    {"session", "number", "action"}
                           → {"observation", "reward", "done"[, "info"]}
    POST {address}/close   {"session"}  → anything

`session` is our name until the service answers the reset with its own. `number` counts the actions,
from 1.
"""

import json

from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull.addresses import parse_address, resolved
from apps.environments.pull.errors import CallFailed, NoAction
from apps.environments.pull.exchanges import exchange_json
from apps.environments.pull.secrets import find_secret
from apps.environments.pull.wording import no_action, read_action, read_observation

MAX_SESSION_LENGTH = 200
MAX_INFO_LENGTH = 64_000  # characters of its JSON


class HttpSession:
    """One episode in such a service. The caller sets the time limits."""

    def __init__(self, environment: Environment) -> None:
        self.environment, self.address = environment, parse_address(environment.address)
        self.machine = self.session = self.secret = ""
        self.number = 0

    async def begin(self, episode: int, seed: int, options: dict) -> Step:
        self.machine = await resolved(self.address)
        self.secret = find_secret("ENVIRONMENT_KEYS", self.address, self.machine)
        self.session = str(episode)
        reply = await self._post("/reset", {"seed": seed, "options": options})
        require_fields("/reset", reply, {"observation"}, {"session", "info"})
        name = reply.get("session", self.session)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_SESSION_LENGTH:
            raise CallFailed(
                f"/reset: session: must be a text of 1 to {MAX_SESSION_LENGTH} characters"
            )
        self.session = name
        return Step(read_observation(reply["observation"]), None, False, read_info("/reset", reply))

    async def step(self, text: str) -> Step:
        try:
            action = read_action(self.environment.action_schema, text)
        except NoAction as why:
            return Step(no_action(why), self.environment.reward_low, False)
        self.number += 1
        reply = await self._post("/step", {"number": self.number, "action": action})
        require_fields("/step", reply, {"observation", "reward", "done"}, {"info"})
        if not isinstance(reply["done"], bool):
            raise CallFailed("/step: done: must be true or false")
        return Step(
            read_observation(reply["observation"]),
            reply["reward"],
            reply["done"],
            read_info("/step", reply),
        )

    async def close(self) -> None:
        if self.session:
            await self._post("/close", {})

    async def _post(self, path: str, body: dict) -> dict:
        return await exchange_json(
            self.address, self.machine, "POST", path, {"session": self.session, **body}, self.secret
        )


def require_fields(where: str, reply: dict, needed: set[str], allowed: set[str]) -> None:
    """Raise CallFailed when a field is missing or unknown."""
    if missing := needed - set(reply):
        raise CallFailed(f"{where}: {', '.join(sorted(missing))}: required")
    if unknown := set(reply) - needed - allowed:
        raise CallFailed(
            f"{where}: {', '.join(sorted(unknown))[:200]}: not a known field; put it into info"
        )


def read_info(where: str, reply: dict, field: str = "info") -> dict:
    """Return the `info` object for people, bounded because it is stored with every turn."""
    info = reply.get(field)
    info = {} if info is None else info
    if not isinstance(info, dict) or len(json.dumps(info)) > MAX_INFO_LENGTH:
        raise CallFailed(
            f"{where}: {field}: must be an object of at most {MAX_INFO_LENGTH} characters"
        )
    return info
