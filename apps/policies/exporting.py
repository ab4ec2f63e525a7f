"""A sealed version as a standard Hugging Face folder: whole weights, configuration, tokenizer, generation defaults, model card."""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from apps.accounts import strict_json
from apps.policies.copying import copy_as_base
from apps.policies.folder import ADAPTER, ADAPTER_CONFIG, MANIFEST

GENERATION = "generation_config.json"
CARD = "README.md"
KEPT_OF_CONFIG = ("bos_token_id", "eos_token_id", "pad_token_id")
PIECE = 1 << 20  # bytes of a file that a zip takes at a time
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes give the same zip


def export(source: Path, final: Path, card: str) -> int:
    """Put the version in `source` at `final`, which must not be there; returns its bytes.

    An adapter is merged. Files are linked where the disk allows it, as a sealed folder's never change. Raises NotCopied,
    DamagedWeights, FileExistsError, OSError; nothing takes the name `final` then.
    """
    if final.exists():
        raise FileExistsError(f"{final} is there already")
    whole = final.with_name(f"{final.name}.{os.getpid()}.whole")
    try:
        copy_as_base(source, whole)
        (whole / MANIFEST).unlink()
        _write_generation(whole)
        (whole / CARD).unlink(missing_ok=True)  # it may be a link to the base's own
        (whole / CARD).write_text(card, encoding="utf-8")
        os.rename(whole, final)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    return sum(path.stat().st_size for path in final.iterdir())


def _write_generation(folder: Path) -> None:
    """What ends an answer, where the base does not say it itself."""
    if (folder / GENERATION).exists():
        return
    config = strict_json.read(folder / "config.json", 64 << 20)
    told = {name: config[name] for name in KEPT_OF_CONFIG if config.get(name) is not None}
    (folder / GENERATION).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def zipped(folder: Path) -> Iterator[bytes]:
    """The folder as a zip, made while it is sent: stored, as weights do not get smaller, a piece in memory at a time."""
    return _zipped((f"{folder.name}/{path.name}", path.stat().st_size, path.open("rb")) for path in sorted(folder.iterdir()))


def adapter_zipped(source: Path, name: str, base: str) -> Iterator[bytes]:
    """The adapter in `source` by itself, as a folder `name` that peft loads over its base, which it calls `base`: the place where
    that lies on this machine is nobody's business. Raises OSError."""
    config = strict_json.read(source / ADAPTER_CONFIG, 64 << 20)
    told = json.dumps({**config, "base_model_name_or_path": base}, indent=1, sort_keys=True).encode() + b"\n"
    tensors = (source / ADAPTER).open("rb")  # at once: it stays readable when the folder is retired meanwhile
    size = os.fstat(tensors.fileno()).st_size
    files = ((ADAPTER_CONFIG, len(told), io.BytesIO(told)), (ADAPTER, size, tensors))
    return _zipped((f"{name}/{file}", size, stream) for file, size, stream in files)


def _zipped(files: Iterable[tuple[str, int, BinaryIO]]) -> Iterator[bytes]:
    """`files`: name, bytes, and what they are read from, which is closed."""
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
    """A file that cannot seek, whose bytes are taken as they come."""

    def __init__(self) -> None:
        self.pending = bytearray()

    def write(self, data: bytes) -> int:
        self.pending += data
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken = bytes(self.pending)
        self.pending.clear()
        return taken
