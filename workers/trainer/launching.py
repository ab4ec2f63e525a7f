"""Launch a group of ranks from rank 0: rendezvous, start of local processes, supervision.

Ranks meet at a TCPStore in this process. For ranks of one machine it listens on loopback only.
Ranks of other machines connect to an address that the installation names. Whoever reaches that
address can take part, so it must be in a network of its own (docs/deploy.md).
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import structlog
import torch
import torch.distributed as dist

from workers import stop_request
from workers.trainer.batch_queue import Interrupted
from workers.trainer.ranks import (
    ALONE,
    FAILED,
    LOOPBACK,
    WORLD,
    Command,
    Place,
    Ranks,
    is_of_connection,
    join_ranks,
    joined_key,
    parse_rendezvous,
)
from workers.trainer.spec import TrainerSpec

log = structlog.get_logger(__name__)
ROOT = Path(__file__).resolve().parents[2]
JOIN_SECONDS = 600.0  # for a rank to import its libraries, perhaps from a cold disk
END_SECONDS = 10.0  # for a rank to end in order
LOOK_SECONDS = 0.2
DEATH_SECONDS = 3.0  # for the system to report the end of a process whose connection broke


class RanksMissing(RuntimeError):
    """Raised when ranks that other machines were to start did not join."""


class RankFailed(RuntimeError):
    """Raised for an error in another rank; its message is that error."""


class RankLost(RuntimeError):
    """Raised when a rank has ended; other ranks can repeat the recorded steps."""


@dataclass
class LocalRanks:
    """Processes of this machine's ranks other than rank 0, by rank."""

    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, place: Place, address: str, threads: int) -> None:
        """Start one rank, which ends with the thread that calls this."""
        command = [sys.executable, "-m", "workers.trainer.rank", "--rendezvous", address]
        command += ["--parent", str(os.getpid())]
        variables = {
            "LOCAL_RANK": place.local,
            "LOCAL_WORLD_SIZE": place.locals,
            "OMP_NUM_THREADS": threads,
        }
        self.processes[place.rank] = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **{name: str(value) for name, value in variables.items()}},
            stdin=subprocess.DEVNULL,
        )

    def ended(self) -> str:
        """Describe how one of the processes has ended; return "" while all run."""
        for rank, process in self.processes.items():
            status = process.poll()
            if status is not None:
                return f"process {rank} of the trainer {_how(status)}"
        return ""

    def end(self, seconds: float) -> None:
        """Wait at most so many seconds for all to end, then kill the rest."""
        ends = time.monotonic() + seconds
        for process in self.processes.values():
            try:
                process.wait(max(0.0, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _how(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"


@contextmanager
def gather_ranks(spec: TrainerSpec, start: dict[str, Any]) -> Iterator[Ranks]:
    """Gather the ranks of a run, send them `start`, and end them afterwards.

    Raises RanksMissing. If a lost rank caused an error here, raises RankLost or RankFailed instead.
    """
    if spec.processes == 1:
        yield ALONE
        return
    _require_devices(spec)
    meeting = meeting_at(spec.rendezvous)
    number = meeting.store.add("groups", 1)
    store = dist.PrefixStore(str(number), meeting.store)
    threads = threads_per_rank(spec)
    launched = LocalRanks()
    seconds = 0.0
    try:
        meeting.store.set(WORLD, json.dumps({"number": number, "size": spec.processes}))
        for local in range(1, spec.local_ranks):
            place = Place(local, spec.processes, local, spec.local_ranks)
            launched.start(place, meeting.address, threads)
        _wait_for(spec, store, launched, meeting.address)
        with join_ranks(Place(0, spec.processes, 0, spec.local_ranks), store, threads) as group:
            log.info("ranks_joined", processes=spec.processes, threads=threads)
            group.explanation = partial(_explain_error, store=store, launched=launched)
            group.broadcast(start)
            yield group
            group.send(Command.STOP)
            seconds = END_SECONDS
    except Exception as error:
        explained = _explain_error(error, store, launched)
        if explained is error:
            raise
        raise explained from error
    finally:
        meeting.store.delete_key(WORLD)
        launched.end(seconds)


def threads_per_rank(spec: TrainerSpec) -> int:
    """Divide this machine's threads among its ranks."""
    return max(1, (spec.threads or torch.get_num_threads()) // spec.local_ranks)


def _require_devices(spec: TrainerSpec) -> None:
    gpus = torch.cuda.device_count()
    if gpus and gpus < spec.local_ranks:
        raise ValueError(
            f"trainer.processes: {spec.local_ranks} processes on this machine need "
            f"{spec.local_ranks} GPUs, but it has {gpus}; lower the number, or set "
            "RFTWEB_TRAINER_RANKS_HERE and start the other processes on other machines"
        )


def _wait_for(spec: TrainerSpec, store: dist.Store, launched: LocalRanks, address: str) -> None:
    """Block until all other ranks have joined. Raises Interrupted if the worker is to stop."""
    missing = list(range(1, spec.processes))
    ends = time.monotonic() + JOIN_SECONDS
    while missing:
        if stop_request.is_asked():
            raise Interrupted(
                "the worker was stopped before all processes of its trainer had joined"
            )
        if how := launched.ended():
            raise RankLost(f"{how} before it had joined")
        if time.monotonic() > ends:
            numbers = ", ".join(map(str, missing))
            raise RanksMissing(
                f"trainer.processes is {spec.processes}, but process {numbers} did not join at "
                f"{address} within {JOIN_SECONDS:.0f} s; start it on the other machines with "
                "torchrun (docs/deploy.md)"
            )
        time.sleep(LOOK_SECONDS)
        missing = [rank for rank in missing if not store.check([joined_key(rank)])]


def _explain_error(error: Exception, store: dist.Store, launched: LocalRanks) -> Exception:
    """Return the error that a rank reported, or a description of its end.

    If no rank caused it, return `error` itself.
    """
    if isinstance(error, RankLost | RankFailed) or not is_of_connection(error):
        return error
    ends = time.monotonic() + DEATH_SECONDS
    while True:
        if store.check([FAILED]):
            return RankFailed(store.get(FAILED).decode())
        if how := launched.ended():
            return RankLost(how)
        if time.monotonic() > ends:
            log.warning("rank_connection_broke", error=str(error))
            return RankLost("the connection to a process of the trainer was lost")
        time.sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class Rendezvous:
    """Rendezvous of the ranks: a store, and the address that it listens on."""

    store: dist.TCPStore
    address: str


@cache
def meeting_at(rendezvous: str) -> Rendezvous:
    """Listen at "host:port", or, if that is empty, at a free port of loopback; once per process.

    Raises OSError if the address is in use or does not belong to this machine.
    """
    host, port = parse_rendezvous(rendezvous) if rendezvous else (LOOPBACK, 0)
    listening = socket.create_server((host, port))
    port = listening.getsockname()[1]
    store = dist.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=JOIN_SECONDS),
        master_listen_fd=listening.detach(),
    )
    return Rendezvous(store, f"{host}:{port}")
