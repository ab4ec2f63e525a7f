"""Checkpoints: model, optimizer, scheduler, random state and step, sealed against damage.

A checkpoint is written elsewhere, gets a manifest with the sha256 of every file, is made durable,
and only then gets its name `step-00000010`. A damaged checkpoint is recognised and never resumed.
This module moves and reads files, without torch.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import TypedDict

from apps.policies.manifest import sync, sync_all

MANIFEST = "checkpoint.json"
STATE = "objective.json"  # state of the objective, such as an adaptive coefficient
FORMAT = 2
# Files that a step depends on. Other files that the trainer library writes (a pickle of its
# arguments, model cards) are deleted.
REQUIRED = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", STATE)
FULL = ("config.json", "model.safetensors", "model.safetensors.index.json")
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
SCALER = "scaler.pt"  # scale of the loss, which a float16 trainer finds by overflowing
CONTENT = (*REQUIRED, *FULL, *ADAPTER, "reference.safetensors", SCALER)
SHARD = "model-*.safetensors"


class DamagedCheckpoint(Exception):
    """Raised for a checkpoint that differs from its manifest; names folder and file."""


class SealedFile(TypedDict):
    """Size and checksum of a file, as the manifest lists them."""

    bytes: int
    sha256: str


def checkpoint_folder(root: Path, step: int) -> Path:
    return root / f"step-{step:08d}"


def checkpoint_step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def seal_checkpoint(written: Path, root: Path, step: int, keep: int) -> Path:
    """Write the manifest of a new checkpoint, rename it durably, and return its folder.

    Then delete all but the newest `keep`. A checkpoint that exists already (the same step,
    repeated after a crash) stays if it is intact.
    """
    final = checkpoint_folder(root, step)
    _delete_other_files(written)
    files = {
        path.name: {"sha256": _sha256(path), "bytes": path.stat().st_size}
        for path in sorted(written.iterdir())
    }
    if missing := [name for name in REQUIRED if name not in files]:
        raise DamagedCheckpoint(f"{final.name}: {missing[0]} was not written")
    (written / MANIFEST).write_text(
        json.dumps({"format": FORMAT, "step": step, "files": files}, indent=1) + "\n"
    )
    sync_all([written / name for name in (*files, MANIFEST)])
    sync(written)
    if final.exists():
        _settle(written, final)
    else:
        written.rename(final)
    sync(root)
    for old in sealed(root)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def sealed(root: Path) -> list[Path]:
    """Return checkpoints by name, the newest first."""
    return sorted(root.glob("step-????????"), reverse=True)


def newest_intact(root: Path, max_step: int) -> tuple[Path | None, list[str]]:
    """Return the newest intact checkpoint of a step up to `max_step`, and the damage of newer ones.

    Returns None as checkpoint if there is none at all: then every recorded batch is replayed.
    Raises DamagedCheckpoint if there are some and none is intact.
    """
    damage: list[str] = []
    for folder in sealed(root):
        if checkpoint_step(folder) > max_step:
            continue
        try:
            verify_checkpoint(folder)
        except DamagedCheckpoint as error:
            damage.append(str(error))
        else:
            return folder, damage
    if damage:
        raise DamagedCheckpoint("no intact checkpoint: " + "; ".join(damage))
    return None, damage


def discard_uncommitted(root: Path, last_step: int) -> None:
    """Delete the checkpoints of steps after the last committed one.

    Such a step may be planned anew with another batch, if the database has lost its plan.
    """
    for folder in sealed(root):
        if checkpoint_step(folder) > last_step:
            shutil.rmtree(folder, ignore_errors=True)


def verify_checkpoint(folder: Path) -> None:
    """Compare every byte with the manifest.

    Raises DamagedCheckpoint naming the first file that differs.
    """
    for name, entry in _manifest(folder).items():
        path = folder / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise DamagedCheckpoint(f"{folder.name}/{name} is missing") from None
        if size != entry["bytes"]:
            raise DamagedCheckpoint(f"{folder.name}/{name} has {size} bytes of {entry['bytes']}")
        if _sha256(path) != entry["sha256"]:
            raise DamagedCheckpoint(f"{folder.name}/{name} does not match its sha256")


def _manifest(folder: Path) -> dict[str, SealedFile]:
    try:
        document = json.loads((folder / MANIFEST).read_bytes())
        if document["format"] != FORMAT or document["step"] != checkpoint_step(folder):
            raise ValueError("format or step differs")
        files = document["files"]
        if missing := [name for name in REQUIRED if name not in files]:
            raise ValueError(f"{missing[0]} is not listed")
        return {
            Path(name).name: {"bytes": entry["bytes"], "sha256": entry["sha256"]}
            for name, entry in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{folder.name}/{MANIFEST}: {error}") from None


def _delete_other_files(written: Path) -> None:
    kept_names = {*CONTENT, *(path.name for path in written.glob(SHARD))}
    for path in written.iterdir():
        if path.name not in kept_names:
            path.unlink()


def _settle(written: Path, final: Path) -> None:
    try:
        verify_checkpoint(final)
    except DamagedCheckpoint:
        shutil.rmtree(final)
        written.rename(final)
    else:
        shutil.rmtree(written)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
