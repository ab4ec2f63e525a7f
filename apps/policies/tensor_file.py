"""One safetensors file, read without torch and in bounded memory.

`read_layout` checks the header as strictly as the format allows; `inspect` reads the whole file
once, returns its sha256 and a digest per tensor, and raises `DamagedWeights` at the first number
that is not finite. Layout of the file: 8 bytes little-endian header length, JSON header, then the
tensors' bytes without gaps (https://huggingface.co/docs/safetensors, "Format").
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from apps.accounts import strict_json
from apps.policies.damage import Damage, DamagedWeights

HEADER_LIMIT = 100_000_000  # bytes; the bound of the reference implementation
CHUNK = 4 << 20  # bytes read at a time; a multiple of every item size

ITEM_SIZE = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}
# Bits that are all set in infinities and NaNs only (in F8_E4M3, which has no infinity, in NaNs).
NOT_FINITE_BITS = {
    "F64": ("<u8", 0x7FF0_0000_0000_0000),
    "F32": ("<u4", 0x7F80_0000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
    "F8_E5M2": ("u1", 0x7C),
    "F8_E4M3": ("u1", 0x7F),
}


@dataclass(frozen=True)
class TensorSpec:
    """The dtype (in safetensors' notation) and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorPlace:
    """A tensor and where its bytes lie, counted from the end of the header."""

    name: str
    spec: TensorSpec
    begin: int
    end: int


@dataclass(frozen=True)
class Inspection:
    """The result of reading a file once; `digests` are sha256 (hex) of each tensor's bytes."""

    sha256: str
    bytes: int
    tensors: dict[str, TensorSpec]
    digests: dict[str, str]


def inspect(path: Path, advance: Callable[[int], None] | None = None) -> Inspection:
    """Check layout and finiteness in one pass and compute checksums. Raise DamagedWeights.

    `advance` is called with the number of bytes read, piece by piece.
    """
    layout = read_layout(path)
    whole = hashlib.sha256()
    digests: dict[str, str] = {}
    # The file's checksum is computed beside the tensors', as hashing lets other threads run.
    with path.open("rb") as stream, ThreadPoolExecutor(1) as aside:
        hashed = aside.submit(whole.update, stream.read(_header_end(stream, path)))
        for tensor in layout:
            tensor_hash = hashlib.sha256()
            for chunk in _chunks(stream, tensor, path):
                hashed.result()  # so that no more than two chunks are held
                hashed = aside.submit(whole.update, chunk)
                _require_finite(chunk, tensor, path)
                tensor_hash.update(chunk)
                if advance:
                    advance(len(chunk))
            digests[tensor.name] = tensor_hash.hexdigest()
        hashed.result()
    specs = {tensor.name: tensor.spec for tensor in layout}
    return Inspection(whole.hexdigest(), path.stat().st_size, specs, digests)


def read_layout(path: Path) -> list[TensorPlace]:
    """Return the tensors of the file in the order of their bytes; raise DamagedWeights."""
    with path.open("rb") as stream:
        end = _header_end(stream, path)
        header = _decode_header(stream.read(end)[8:], path)
    placed = sorted(
        (_place(name, entry, path) for name, entry in header.items()),
        key=lambda t: (t.begin, t.end),
    )
    _require_contiguous(placed, path.stat().st_size - end, path)
    return placed


def _header_end(stream: BinaryIO, path: Path) -> int:
    """Return the offset of the first tensor byte; leave the stream at the start of the file."""
    stream.seek(0)
    prefix = stream.read(8)
    size = path.stat().st_size
    stream.seek(0)
    if len(prefix) < 8:
        raise DamagedWeights(Damage.TRUNCATED, path.name, f"{size} bytes cannot hold a header")
    length = int.from_bytes(prefix, "little")
    if length > HEADER_LIMIT:
        raise DamagedWeights(
            Damage.BAD_HEADER, path.name, f"header claims {length} bytes, more than {HEADER_LIMIT}"
        )
    if 8 + length > size:
        raise DamagedWeights(
            Damage.TRUNCATED, path.name, f"header needs {8 + length} bytes, the file has {size}"
        )
    return 8 + length


def _decode_header(raw: bytes, path: Path) -> dict[str, Any]:
    """Return the header's tensor entries, without `__metadata__`."""
    try:
        header = strict_json.decode_json(raw)
    except strict_json.NotStrictJson as error:
        kind = Damage.DUPLICATE_TENSOR if "duplicate key" in str(error) else Damage.BAD_HEADER
        raise DamagedWeights(kind, path.name, str(error)) from None
    if not isinstance(header, dict):
        raise DamagedWeights(Damage.BAD_HEADER, path.name, "the header is not a JSON object")
    header.pop("__metadata__", None)
    if not header:
        raise DamagedWeights(Damage.BAD_HEADER, path.name, "contains no tensor")
    return header


def _place(name: str, entry: Any, path: Path) -> TensorPlace:
    """Return one header entry, checked against the format and its own byte count."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise DamagedWeights(
            Damage.BAD_HEADER, path.name, f"{name}: must have exactly dtype, shape and data_offsets"
        )
    dtype = entry["dtype"]
    shape = entry["shape"]
    offsets = entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_SIZE:
        raise DamagedWeights(Damage.WRONG_DTYPE, path.name, f"{name}: unknown dtype {dtype!r}")
    if not _natural_numbers(shape) or not _natural_numbers(offsets) or len(offsets) != 2:
        raise DamagedWeights(
            Damage.BAD_HEADER, path.name, f"{name}: shape and offsets must be natural numbers"
        )
    begin, end = offsets
    if end - begin != math.prod(shape) * ITEM_SIZE[dtype]:
        raise DamagedWeights(
            Damage.WRONG_SHAPE,
            path.name,
            f"{name}: {dtype}{shape} does not fill {end - begin} bytes",
        )
    return TensorPlace(name, TensorSpec(dtype, tuple(shape)), begin, end)


def _natural_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def _require_contiguous(placed: list[TensorPlace], available: int, path: Path) -> None:
    """Require that tensors follow each other without gap or overlap to the file's end."""
    at = 0
    for tensor in placed:
        if tensor.begin != at:
            raise DamagedWeights(
                Damage.BAD_HEADER, path.name, f"{tensor.name}: gap or overlap at byte {at}"
            )
        at = tensor.end
    if at > available:
        raise DamagedWeights(
            Damage.TRUNCATED, path.name, f"tensors need {at} bytes, but there are {available}"
        )
    if at < available:
        raise DamagedWeights(
            Damage.BAD_HEADER, path.name, f"{available - at} bytes after the last tensor"
        )


def _chunks(stream: BinaryIO, tensor: TensorPlace, path: Path) -> Iterator[bytes]:
    """Yield the tensor's bytes from the stream's position, at most CHUNK at a time."""
    remaining = tensor.end - tensor.begin
    while remaining:
        size = min(CHUNK, remaining)
        chunk = stream.read(size)
        if len(chunk) < size:
            raise DamagedWeights(
                Damage.TRUNCATED, path.name, f"{tensor.name}: {remaining} bytes are missing"
            )
        remaining -= len(chunk)
        yield chunk


def _require_finite(chunk: bytes, tensor: TensorPlace, path: Path) -> None:
    if tensor.spec.dtype not in NOT_FINITE_BITS:
        return
    unsigned, bits = NOT_FINITE_BITS[tensor.spec.dtype]
    words = np.frombuffer(chunk, dtype=unsigned)
    bad = int(np.count_nonzero((words & words.dtype.type(bits)) == bits))
    if bad:
        raise DamagedWeights(
            Damage.NOT_FINITE, path.name, f"{tensor.name}: {bad} values are NaN or infinite"
        )
