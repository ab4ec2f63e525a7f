"""Checkpoints: model, optimizer, scheduler, random state and step, sealed so that damage is seen and never resumed.

A checkpoint is written elsewhere, gets a manifest with the sha256 of every file, is made durable, and only then
takes its name `step-00000010`. Torch-free: it moves and reads files.
"""

import hashlib
import json
import shutil
from pathlib import Path

from apps.policies.manifest import sync

MANIFEST = "checkpoint.json"
STATE = "objective.json"  # what the objective has become: an adaptive coefficient
FORMAT = 2
# What an update depends on. Anything else the trainer library leaves (a pickle of its arguments, cards) is taken out.
REQUIRED = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", STATE)
FULL = ("config.json", "model.safetensors", "model.safetensors.index.json")
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
CONTENT = (*REQUIRED, *FULL, *ADAPTER, "reference.safetensors")
SHARD = "model-*.safetensors"


class DamagedCheckpoint(Exception):
    """A checkpoint is not what was sealed; the message names folder and file."""


def folder_of(root: Path, step: int) -> Path:
    return root / f"step-{step:08d}"


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def seal(written: Path, root: Path, step: int, keep: int) -> Path:
    """Give a freshly written checkpoint its manifest and its name, durably; then drop all but the newest `keep`.

    One that is there already (the same update made again after a crash) stays if it is intact.
    """
    final = folder_of(root, step)
    _take_out_the_rest(written)
    files = {path.name: {"sha256": _sha256(path), "bytes": path.stat().st_size} for path in sorted(written.iterdir())}
    if missing := [name for name in REQUIRED if name not in files]:
        raise DamagedCheckpoint(f"{final.name}: {missing[0]} was not written")
    (written / MANIFEST).write_text(json.dumps({"format": FORMAT, "step": step, "files": files}, indent=1) + "\n")
    for name in (*files, MANIFEST, ""):
        sync(written / name)
    if final.exists():
        _settle(written, final)
    else:
        written.rename(final)
    sync(root)
    for old in sealed(root)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def sealed(root: Path) -> list[Path]:
    """Checkpoints by name, the newest first."""
    return sorted(root.glob("step-????????"), reverse=True)


def newest_intact(root: Path, at_most: int) -> tuple[Path | None, list[str]]:
    """The newest undamaged checkpoint of a step up to `at_most`, and what is wrong with newer ones.

    None when there is no checkpoint at all: every recorded batch is then replayed. Raises DamagedCheckpoint when
    there are some and none is intact.
    """
    damage: list[str] = []
    for folder in sealed(root):
        if step_of(folder) > at_most:
            continue
        try:
            verify(folder)
        except DamagedCheckpoint as error:
            damage.append(str(error))
        else:
            return folder, damage
    if damage:
        raise DamagedCheckpoint("no intact checkpoint: " + "; ".join(damage))
    return None, damage


def verify(folder: Path) -> None:
    """Compare every byte with the manifest. Raises DamagedCheckpoint naming the first file that differs."""
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


def _manifest(folder: Path) -> dict[str, dict]:
    try:
        document = json.loads((folder / MANIFEST).read_bytes())
        if document["format"] != FORMAT or document["step"] != step_of(folder):
            raise ValueError("format or step is another")
        files = document["files"]
        if missing := [name for name in REQUIRED if name not in files]:
            raise ValueError(f"{missing[0]} is not listed")
        return {Path(name).name: {"bytes": entry["bytes"], "sha256": entry["sha256"]} for name, entry in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{folder.name}/{MANIFEST}: {error}") from None


def _take_out_the_rest(written: Path) -> None:
    wanted = {*CONTENT, *(path.name for path in written.glob(SHARD))}
    for path in written.iterdir():
        if path.name not in wanted:
            path.unlink()


def _settle(written: Path, final: Path) -> None:
    try:
        verify(final)
    except DamagedCheckpoint:
        shutil.rmtree(final)
        written.rename(final)
    else:
        shutil.rmtree(written)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
