"""A player of library, Gymnasium and verifiers environments in its own process, move by move.

The explorer never waits for it. If a move takes too long or crashes the process, only its episode
fails. The others are replayed in the next process from their seeds and actions.
"""

import json
import os
import selectors
import subprocess
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from apps.environments.library.process import (
    CHILD,
    MAX_REPLY_LENGTH,
    MEMORY_BYTES,
    START_S,
    command,
    surroundings,
)
from apps.environments.pull import verifiers

PATIENCE_S = 0.002
PATIENCE_IN_ALL_S = 0.01  # seconds to wait for an imminent reply, and for all of one call


@dataclass(frozen=True)
class Move:
    """A request to an environment for the observation after all these actions."""

    episode: int
    name: str
    seed: int
    options: dict[str, Any]
    actions: tuple[str, ...]
    turns: int = 0  # the most actions; 0: no limit


@dataclass(frozen=True)
class Reply:
    """The environment's reply, or an `error` that says why there is none."""

    episode: int
    number: int
    observation: object = None
    reward: object = None
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""


class LibraryPlayer:
    """A player in a child process. Not thread-safe: one per run session."""

    START_S = START_S  # seconds for the process to start, beside its first move

    def __init__(self, move_s: float, memory_bytes: int = MEMORY_BYTES, module: str = "") -> None:
        self.move_s = move_s
        self.memory_bytes = memory_bytes
        self.module = module or CHILD
        self.child: subprocess.Popen[bytes] | None = None
        self.moves: deque[Move] = deque()  # the first one is in progress when `since` is set
        self.since: float | None = None
        self.grace_s = 0.0
        self.read = b""

    def ask(self, move: Move) -> None:
        self.moves.append(move)

    def forget(self, episode: int) -> None:
        """Drop an episode that nobody waits for any more."""
        under_way = self.moves.popleft() if self.since is not None else None
        self.moves = deque(move for move in self.moves if move.episode != episode)
        if under_way is not None:
            self.moves.appendleft(under_way)
        self.moves.append(Move(episode, "", 0, {}, ()))

    def replies(self) -> list[Reply]:
        """Return the replies that have arrived, and start the next moves."""
        arrived: list[Reply] = []
        ends = time.monotonic() + PATIENCE_IN_ALL_S
        while self.moves:
            if self.since is None and not self._begin(arrived):
                continue
            reply = self._reply()
            if reply is None:
                break
            self.moves.popleft()
            self.since = None
            arrived.append(reply)
            if time.monotonic() > ends:
                break
        return arrived

    def _begin(self, replies: list[Reply]) -> bool:
        """Send the first move; return False when there is nothing to wait for."""
        move = self.moves[0]
        closes = not move.name
        request = {"episode": move.episode, "close": True} if closes else vars(move)
        if closes and self.child is None:
            self.moves.popleft()
            return False
        try:
            child = self._living_child()
            assert child.stdin is not None  # a pipe
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        except OSError as error:
            self.stop()
            self.moves.popleft()
            if not closes:
                replies.append(
                    self._failed(move, f"could not send the request to the process: {error}")
                )
            return False
        if closes:
            self.moves.popleft()
            return False
        self.since = time.monotonic()
        return True

    def _reply(self) -> Reply | None:
        move = self.moves[0]
        assert self.child is not None and self.child.stdout is not None and self.since is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            ready = selector.select(PATIENCE_S)
        if ready:
            read = os.read(self.child.stdout.fileno(), 1 << 20)
            self.read += read
            if not read:
                code = self.child.wait()
                self.stop()
                return self._failed(move, f"the process exited with {code}")
        line, newline, unread = self.read.partition(b"\n")
        if newline:
            self.read = unread
            self.grace_s = 0.0
            return self._understood(move, line)
        if len(self.read) > MAX_REPLY_LENGTH:
            self.stop()
            return self._failed(move, f"the response is longer than {MAX_REPLY_LENGTH} bytes")
        if time.monotonic() - self.since > self.move_s + self.grace_s:
            self.stop()
            return self._failed(move, f"took longer than {self.move_s:g} s")
        return None

    def _understood(self, move: Move, line: bytes) -> Reply:
        answer = json.loads(line)
        if "error" in answer:
            return self._failed(move, answer["error"])
        return Reply(**answer)

    def _failed(self, move: Move, reason: str) -> Reply:
        return Reply(move.episode, len(move.actions), error=reason)

    def _living_child(self) -> subprocess.Popen[bytes]:
        if self.child is None or self.child.poll() is not None:
            self.stop()
            self.grace_s = self.START_S
            self.child = self._start()
        return self.child

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(self.module, self.memory_bytes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=surroundings(),
        )

    def stop(self) -> None:
        """End the process; unanswered moves are sent to the next one."""
        self.since = None
        self.read = b""
        if self.child is not None:
            self._end(self.child)
            self.child = None

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        child.communicate()


class VerifiersPlayer(LibraryPlayer):
    """A player in the virtual environment of the verifiers package.

    Its process starts others (tools), and ends them with itself.
    """

    START_S = 120.0  # the package imports slowly
    END_S = 3.0

    def _start(self) -> subprocess.Popen[bytes]:
        return verifiers.start_verifiers_process()

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Close the process's input, which ends it, and kill it if it does not end in time."""
        assert child.stdin is not None and child.stdout is not None  # both are pipes
        with suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(self.END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
