"""Processes (ranks) that make the steps of one run together, and their communication.

Rank 0 is the worker's own process. Only rank 0 uses the database: lease, fence, batch and commit.
The other ranks (`workers.trainer.rank`) follow its commands. A command may take hours to come while
people judge, so ranks wait for it at a key-value store, whose waits never time out. After a
command, all ranks act at the same moment, through process groups of torch: gradients and shards use
the default group, flags and metrics a separate group of gloo.

Names used from torch 2.13: `TCPStore` (with `master_listen_fd`, so that it listens on one address
only), `PrefixStore`, `DistStoreError` (raised when a wait times out), `init_process_group(store=)`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import torch
import torch.distributed as dist

# Between two collectives of a step there is at most one micro-batch, which may take minutes.
COLLECTIVE = timedelta(minutes=30)
LISTEN = timedelta(minutes=1)  # length of one wait for a command; waits are repeated without end
LOOPBACK = "127.0.0.1"
# Keys of the store where ranks meet: the group that wants ranks, and the error of a rank. All other
# keys belong to one group and begin with its number.
WORLD = "world"
FAILED = "failed"


class Command(StrEnum):
    """Commands that rank 0 sends to the other ranks."""

    UPDATE = "update"
    SAVE = "save"
    PUBLISH = "publish"
    STOP = "stop"


@dataclass(frozen=True)
class Message:
    """Command to the other ranks; `content` is the batch of a step, otherwise None."""

    command: Command
    content: Any = None


class Ranks:
    """Ranks of a process that trains alone."""

    rank = 0
    size = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set in any rank. All ranks call it at the same moment."""
        return flag

    def gathered(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank. All ranks call it at the same moment."""
        return [value]

    def send(self, command: Command, content: Any = None) -> None:
        """Send all other ranks a command; called in rank 0."""

    def explain(self, error: Exception) -> Exception:
        """Return the error to raise instead of one that the end of another rank may have caused.

        Only rank 0 calls it.
        """
        return error


ALONE = Ranks()


class Group(Ranks):
    """Group of several ranks; `store` holds the keys of this group only.

    `explanation`, which rank 0 has, is what `explain` calls.
    """

    explanation: Callable[[Exception], Exception] | None = None

    def __init__(self, rank: int, size: int, store: dist.Store, control: dist.ProcessGroup) -> None:
        self.rank = rank
        self.size = size
        self.store = store
        self.control = control
        self.messages = 0

    def explain(self, error: Exception) -> Exception:
        return error if self.explanation is None else self.explanation(error)

    def any(self, flag: bool) -> bool:
        count = torch.tensor(int(flag))
        dist.all_reduce(count, group=self.control)
        return bool(count)

    def gathered(self, value: Any) -> list[Any]:
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def send(self, command: Command, content: Any = None) -> None:
        self.messages += 1
        self.store.set(_key(self.messages), command)
        self.broadcast(Message(command, content))
        self.store.delete_key(_key(self.messages))

    def receive(self) -> Message:
        """Wait for the next command; called in all ranks but rank 0.

        Raises DistError if rank 0 has ended.
        """
        self.messages += 1
        while True:
            try:
                self.store.wait([_key(self.messages)], LISTEN)
            except dist.DistStoreError:
                continue
            message = self.broadcast(None)
            assert isinstance(message, Message)  # what `send` broadcasts
            return message

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value in all ranks; all ranks call it at the same moment."""
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self.control)
        return values[0]


def _key(number: int) -> str:
    return f"message-{number}"


def is_of_connection(error: Exception) -> bool:
    """Tell whether a collective or the store raised the error.

    Gloo's errors have no class of their own.
    """
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def joined_key(rank: int) -> str:
    """Return the key by which a rank reports that it has joined."""
    return f"joined-{rank}"


def parse_rendezvous(rendezvous: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError."""
    host, _, port = rendezvous.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"{rendezvous!r} is not an address; use host:port, for example trainer-1:29400"
        )
    return host, int(port)


@dataclass(frozen=True)
class Place:
    """Place of a process in its group.

    `local` is its number on its machine, which is also the number of its GPU.
    """

    rank: int
    size: int
    local: int
    locals: int

    @property
    def is_one_machine(self) -> bool:
        return self.locals == self.size


@contextmanager
def join_ranks(place: Place, store: dist.Store, threads: int) -> Iterator[Group]:
    """Make this process a member of the group, for torch and accelerate, while the block runs."""
    with _environment(_variables(place, threads)):
        if torch.cuda.is_available():
            torch.cuda.set_device(place.local)
        dist.init_process_group(
            "nccl" if torch.cuda.is_available() else "gloo",
            store=store,
            rank=place.rank,
            world_size=place.size,
            timeout=COLLECTIVE,
        )
        try:
            control = dist.new_group(backend="gloo", timeout=COLLECTIVE)
            yield Group(place.rank, place.size, store, control)
        finally:
            dist.destroy_process_group()


def _variables(place: Place, threads: int) -> dict[str, str]:
    """Return the environment variables that accelerate reads in a process started by a launcher.

    They also restrict connections to loopback if all ranks run on one machine.
    """
    variables = {
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local,
        "LOCAL_WORLD_SIZE": place.locals,
        "MASTER_ADDR": LOOPBACK,  # required, but not used: the group exists already
        "OMP_NUM_THREADS": threads,  # otherwise accelerate would set another number
    }
    if place.is_one_machine:
        variables |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    return {name: str(value) for name, value in variables.items()}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables while the block runs, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
