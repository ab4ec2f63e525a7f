"""Export a sealed version for other programs: as a Hugging Face folder, GGUF, or adapter alone."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from apps.accounts import strict_json
from apps.policies.copying import NotCopied, copy_as_base
from apps.policies.folder import ADAPTER, ADAPTER_CONFIG, MANIFEST
from apps.policies.manifest import read_manifest

GENERATION = "generation_config.json"
CARD = "README.md"
LICENCES = ("LICENSE", "LICENSE.txt")
KEPT_OF_CONFIG = ("bos_token_id", "eos_token_id", "pad_token_id")
PIECE = 1 << 20  # bytes of a file that are zipped at a time
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes give the same zip


def export_version(source: Path, final: Path, card: str) -> int:
    """Write the version in `source` to the new folder `final`; return its bytes.

    An adapter is merged. Files are hard-linked where the disk allows it, because those of a sealed
    folder never change. Raises NotCopied, DamagedWeights, FileExistsError, OSError; `final` does
    not exist then.
    """
    if final.exists():
        raise FileExistsError(f"{final} already exists")
    whole = final.with_name(f"{final.name}.{os.getpid()}.whole")
    try:
        copy_as_base(source, whole)
        (whole / MANIFEST).unlink()
        _write_generation(whole)
        (whole / CARD).unlink(missing_ok=True)  # it may be a link to the base's card
        (whole / CARD).write_text(card, encoding="utf-8")
        os.rename(whole, final)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    return sum(path.stat().st_size for path in final.iterdir())


def export_gguf(
    source: Path, final: Path, form: str, card: str, description: dict[str, object]
) -> int:
    """Write the version as a GGUF file, with Modelfile and card, to the new folder `final`.

    A worker's process writes it. `description` holds the metadata of the file: name, about,
    temperature. An adapter is merged first. Returns the bytes. Raises NotCopied, DamagedWeights,
    FileExistsError, OSError; `final` does not exist then.
    """
    if final.exists():
        raise FileExistsError(f"{final} already exists")
    whole = final.with_name(f"{final.name}.{os.getpid()}.whole")
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    try:
        if read_manifest(source).base is not None:
            copy_as_base(source, whole)
            source = whole
        unfinished.mkdir(parents=True)
        _write_gguf(source, unfinished, form, {**description, "licence": _licence(source)})
        (unfinished / CARD).write_text(card, encoding="utf-8")
        os.rename(unfinished, final)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
        shutil.rmtree(unfinished, ignore_errors=True)
    return sum(path.stat().st_size for path in final.iterdir())


def _write_gguf(source: Path, folder: Path, form: str, description: dict[str, object]) -> None:
    """Write the GGUF file in a worker's process. Raise NotCopied with its last line of output."""
    program = [sys.executable, "-m", "workers.exporting.gguf_file", str(source)]
    command = [
        *program,
        "--out",
        str(folder),
        "--form",
        form,
        "--description",
        json.dumps(description),
    ]
    process = subprocess.run(
        command, cwd=settings.BASE_DIR, check=False, capture_output=True, text=True
    )
    if process.returncode:
        errors = process.stderr.strip().splitlines() if process.returncode > 0 else []
        raise NotCopied(
            errors[-1] if errors else (f"the export process ended with status {process.returncode}")
        )


def _licence(folder: Path) -> str:
    """Return the licence text in the folder; empty without one."""
    paths = [folder / name for name in LICENCES if (folder / name).exists()]
    return paths[0].read_text(encoding="utf-8", errors="replace") if paths else ""


def export_adapter(source: Path, final: Path, base: str, card: str) -> int:
    """Write the adapter alone, with its card, to the new folder `final`; return its bytes.

    `base` is the name under which it refers to its base. Raises FileExistsError, OSError; `final`
    does not exist then.
    """
    if final.exists():
        raise FileExistsError(f"{final} already exists")
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    try:
        unfinished.mkdir(parents=True)
        (unfinished / ADAPTER_CONFIG).write_bytes(_adapter_config(source, base))
        shutil.copyfile(source / ADAPTER, unfinished / ADAPTER)
        (unfinished / CARD).write_text(card, encoding="utf-8")
        os.rename(unfinished, final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sum(path.stat().st_size for path in final.iterdir())


def _adapter_config(source: Path, base: str) -> bytes:
    config = strict_json.read_json_file(source / ADAPTER_CONFIG, 64 << 20)
    adapter_config = {**config, "base_model_name_or_path": base}
    return json.dumps(adapter_config, indent=1, sort_keys=True).encode() + b"\n"


def _write_generation(folder: Path) -> None:
    """Write generation_config.json with the end tokens, unless the base has that file."""
    if (folder / GENERATION).exists():
        return
    config = strict_json.read_json_file(folder / "config.json", 64 << 20)
    generation = {name: config[name] for name in KEPT_OF_CONFIG if config.get(name) is not None}
    (folder / GENERATION).write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


def zipped(folder: Path) -> Iterator[bytes]:
    """Yield the folder as a zip while it is sent, one piece in memory at a time.

    Files are stored uncompressed: weights do not compress.
    """
    return _zipped(
        (f"{folder.name}/{path.name}", path.stat().st_size, path.open("rb"))
        for path in sorted(folder.iterdir())
    )


def adapter_zipped(source: Path, name: str, base: str) -> Iterator[bytes]:
    """Yield the adapter alone as a zip of a folder `name` that peft loads over its base.

    `base` is written as the base's name, in place of its path on this machine. Raises OSError.
    """
    config = _adapter_config(source, base)
    tensors = (source / ADAPTER).open(
        "rb"
    )  # opened at once: it stays readable when the folder is retired meanwhile
    size = os.fstat(tensors.fileno()).st_size
    files = ((ADAPTER_CONFIG, len(config), io.BytesIO(config)), (ADAPTER, size, tensors))
    return _zipped((f"{name}/{file}", size, stream) for file, size, stream in files)


def _zipped(files: Iterable[tuple[str, int, BinaryIO]]) -> Iterator[bytes]:
    """Yield a zip of `files`: name, size, and a stream, which is closed."""
    out = _Outbox()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, size, stream in files:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.file_size = size
            with archive.open(entry, "w", force_zip64=True) as target, stream:
                while piece := stream.read(PIECE):
                    target.write(piece)
                    yield out.take()
    yield out.take()


class _Outbox:
    """A file without seek, whose written bytes are taken as they come."""

    def __init__(self) -> None:
        self.pending = bytearray()

    def write(self, data: bytes) -> int:
        self.pending += data
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        piece = bytes(self.pending)
        self.pending.clear()
        return piece
