"""A page on the live socket: it stores text by offset, remembers last ids, and reconnects with
them.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect


@dataclass
class Browser:
    """One page on `/ws/live/`.

    Fails when a chunk comes twice, out of order, or with a gap before it.
    """

    address: str
    headers: dict[str, str]
    topics: list[int]
    texts: dict[int, str] = field(default_factory=dict)
    turns: dict[int, list[str]] = field(default_factory=dict)
    held: dict[int, bool] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    last_ids: dict[int, str] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def connect(self) -> connect:
        after = ",".join(f"{rollout}:{last}" for rollout, last in self.last_ids.items())
        query = "&".join([*(f"topic={topic}" for topic in self.topics), f"after={after}"])
        origin = self.address.replace("ws:", "http:")
        return connect(
            f"{self.address}/ws/live/?{query}",
            origin=origin,
            additional_headers=self.headers,
            proxy=None,
        )

    async def hear(self, socket: ClientConnection) -> dict:
        """Receive one frame."""
        async with asyncio.timeout(60):
            frame = json.loads(await socket.recv())
        self.states += [frame["status"]] if "status" in frame else []
        self.gone += frame.get("snapshot_needed", [])
        for chunk in frame.get("chunks", []):
            self.play(chunk)
        return frame

    async def hear_for(self, socket: ClientConnection, seconds: float) -> None:
        """Receive all frames that come within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    await self.hear(socket)

    def play(self, chunk: dict) -> None:
        rollout = chunk["r"]
        assert order(chunk["id"]) > order(self.last_ids.get(rollout, "0-0")), (
            "an old chunk was sent again"
        )
        self.last_ids[rollout] = chunk["id"]
        match chunk["t"]:
            case "started":
                self.turns[rollout], self.tokens[rollout] = [""], 0
            case "text":
                self.go_on(chunk)
                self.turns[rollout][-1] += chunk["x"]
            case "turn":
                self.go_on(chunk)
                self.turns[rollout] += [chunk["x"], ""]
            case "edit":
                assert chunk["o"] <= self.tokens[rollout], "an edit keeps more tokens than exist"
                *before, turn = self.turns[rollout][: chunk["turn"] + 1]
                self.turns[rollout] = [*before, turn[: chunk["keep"]] + chunk["x"]]
                self.tokens[rollout] = chunk["o"] + chunk["n"]
            case "held" | "freed":
                self.held[rollout] = chunk["t"] == "held"
            case "end":
                self.ended[rollout] = chunk["stop"]
            case unknown:
                raise AssertionError(f"no such chunk: {unknown}")
        if rollout in self.turns:
            self.texts[rollout] = "\n\n".join(self.turns[rollout])

    def go_on(self, chunk: dict) -> None:
        rollout = chunk["r"]
        assert chunk["o"] == self.tokens[rollout], "a gap or an overlap in the tokens"
        self.tokens[rollout] += chunk["n"]


def order(entry_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry_id.split("-"))
