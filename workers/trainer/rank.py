"""Process of a rank other than the first, which carries out the commands of rank 0.

The trainer's worker starts those of its own machine. On another machine torch's launcher does, and
starts again those that die (docs/deploy.md):

    torchrun --nproc-per-node 4 --max-restarts 1000 -m workers.trainer.rank \
        --rendezvous trainer-1:29400 --first-rank 4

It needs no database: rank 0 hands it the run's spec and every batch. Policies and checkpoints are
read from their folders, which all machines see at the same path.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import structlog
import torch
import torch.distributed as dist

from workers.processes import die_with_parent, loading_libraries
from workers.trainer.batch_queue import Interrupted, Stopped
from workers.trainer.collate import Row
from workers.trainer.lessons.rows import Lesson
from workers.trainer.ranked import Batch
from workers.trainer.ranks import (
    FAILED,
    WORLD,
    Command,
    Group,
    Place,
    is_of_connection,
    join_ranks,
    joined_key,
    parse_rendezvous,
)
from workers.trainer.report import Recorder

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.5
CONNECT = timedelta(seconds=30)


class FollowingBatchQueue:
    """Batch queue of a rank other than 0, which receives its batches from rank 0."""

    def __init__(self, group: Group, recorder: Recorder) -> None:
        self.group = group
        self.recorder = recorder
        self.handlers: dict[Command, Callable[[], object]] = {}

    def get(self) -> Batch[Row | Lesson]:
        """Block until the next batch, and carry out other commands meanwhile. Raises Stopped."""
        while True:
            message = self.group.receive()
            if message.command == Command.UPDATE:
                self.recorder.finish(0)  # rank 0 reports the last one
                batch = message.content
                assert isinstance(batch, Batch)  # what comes with this command
                return batch
            if message.command == Command.STOP:
                raise Stopped
            self.handlers[message.command]()

    def raise_if_interrupted(self) -> None:
        """Raise Interrupted if rank 0 ends the step; called between two micro-batches."""
        if self.group.any(False):
            raise Interrupted("rank 0 ended the step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rendezvous", required=True, help="host:port of the trainer's worker")
    parser.add_argument(
        "--first-rank", type=int, default=0, help="rank of this machine's first process"
    )
    parser.add_argument("--parent", type=int, help="PID of a process; stop when it stops")
    options = parser.parse_args()
    if options.parent:
        die_with_parent(options.parent)
    local = int(os.environ.get("LOCAL_RANK", 0))
    rank = options.first_rank + local
    if rank < 1:
        parser.error("--first-rank must be 1 or more: rank 0 is the trainer's worker itself")
    serve_rank(options.rendezvous, rank, local)
    while not options.parent:
        serve_rank(options.rendezvous, rank, local)


def serve_rank(rendezvous: str, rank: int, local: int) -> None:
    """Wait until rank 0 wants this rank, and train until rank 0 stops it."""
    meeting, number, size = wait_for_group(rendezvous, rank)
    store = dist.PrefixStore(str(number), meeting)
    store.set(joined_key(rank), "1")
    threads = torch.get_num_threads()
    place = Place(rank, size, local, int(os.environ.get("LOCAL_WORLD_SIZE", size)))
    with join_ranks(place, store, threads) as group:
        try:
            follow_group(group)
        except Exception as error:
            if is_of_connection(error):
                log.warning("rank_lost_trainer", rank=rank, reason=str(error)[:200])
            else:
                log.exception("rank_failed", rank=rank)
                store.set(FAILED, f"process {rank}: {type(error).__name__}: {error}"[:500])
            raise SystemExit(1) from error


def connected(rendezvous: str) -> dist.TCPStore:
    """Connect to the store of rank 0, and wait for it as long as necessary."""
    host, port = parse_rendezvous(rendezvous)
    while True:
        try:
            return dist.TCPStore(host, port, is_master=False, timeout=CONNECT)
        except dist.DistError as error:
            log.info("rank_waiting_for_trainer", rendezvous=rendezvous, reason=str(error)[:200])
            time.sleep(LOOK_SECONDS)


def wait_for_group(rendezvous: str, rank: int) -> tuple[dist.TCPStore, int, int]:
    """Wait for a group that needs this rank; return its store, its number and its size."""
    while True:
        meeting = connected(rendezvous)
        with suppress(dist.DistError):  # the worker has ended, and may start again
            return meeting, *_called(meeting, rank)


def _called(meeting: dist.TCPStore, rank: int) -> tuple[int, int]:
    while True:
        if meeting.check([WORLD]):
            world = json.loads(meeting.get(WORLD))
            number = world["number"]
            size = world["size"]
            if rank < size and meeting.add(f"{number}/place-{rank}", 1) == 1:
                return number, size
        time.sleep(LOOK_SECONDS)


def follow_group(group: Group) -> None:
    """Train with the group until rank 0 stops it."""
    with loading_libraries():
        from workers.trainer.host import TRAINERS

    start = group.broadcast(None)
    spec = replace(start["spec"], threads=None)
    recorder = Recorder()
    batch_queue = FollowingBatchQueue(group, recorder)
    with tempfile.TemporaryDirectory(prefix="rank-") as staging:
        trainer = TRAINERS[start["kind"]](spec, batch_queue, recorder, Path(staging), group)
        batch_queue.handlers = {
            Command.SAVE: trainer.write_checkpoint,
            Command.PUBLISH: trainer.whole_model,
        }
        resume_from = start["resume_from"]
        if resume_from:
            trainer.restore_state(Path(resume_from))
        with suppress(Stopped):
            with suppress(Interrupted):
                trainer.train(resume_from_checkpoint=resume_from)
            batch_queue.get()  # no further step follows, but rank 0 may still save the last state


if __name__ == "__main__":
    main()
