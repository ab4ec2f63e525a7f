"""Weights & Biases, offline: its own reader finds the written metrics.

Without the package (--with wandb) these tests are skipped.
"""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

wandb = pytest.importorskip("wandb", reason="not installed: scripts/setup --with wandb")


BLOCK = 32_768
HEADER = 7  # the format of its file: a log of records, as in LevelDB
FULL = 1
LAST = 4


def entries(data: bytes) -> Iterator[bytes]:
    """Yield the records of a wandb file."""
    place = HEADER
    pending = b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        size = int.from_bytes(data[place + 4 : place + 6], "little")
        kind = data[place + 6]
        pending += data[place + HEADER : place + HEADER + size]
        place += HEADER + size
        if kind in (FULL, LAST):
            yield pending
            pending = b""


def written(folder: Path) -> list[tuple[int, float]]:
    """Return (step, kl) of every offline file, the oldest first."""
    from wandb.proto import wandb_internal_pb2 as records

    found = []
    for path in sorted(
        folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns
    ):
        for record in map(records.Record.FromString, entries(path.read_bytes())):
            if record.HasField("history"):
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
                found.append((row["_step"], row["kl"]))
    return found


def test_each_step_is_written_once_after_repeated_writes(measured, tmp_path):
    run = measured(1, 2)
    options = (
        "--target",
        "wandb",
        "--wandb-project",
        "rft",
        "--offline",
        "--folder",
        str(tmp_path),
    )
    for steps in ((), (3,), ()):
        measured(*steps)
        call_command("metrics", "write", run.slug, *options, stdout=StringIO())
    assert written(tmp_path) == [(1, 0.01), (2, 0.02), (3, 0.03)]
