"""The header of a GGUF file, read strictly and in bounded memory before any library opens the file.

Layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): magic, version, the number of
tensors, the number of metadata entries, the metadata, a table of the tensors, and behind it, each
aligned, the tensors' bytes in the order of the table. The libraries that read such files trust the
counts, lengths and offsets in it; a file of a few bytes can name 2⁶⁴ of anything.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from apps.policies.damage import Damage, DamagedWeights

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_LIMIT = 256 << 20  # bytes, vocabulary and merges included
ENTRIES_LIMIT = 10_000  # of metadata
TENSORS_LIMIT = 100_000
KEY_LIMIT = 65_535  # bytes, by the specification
NAME_LIMIT = 256  # bytes of a tensor's name; ggml itself takes 63
TEXT_LIMIT = 16 << 20  # bytes of one text: a chat template, a licence
ITEMS_LIMIT = 4_000_000  # of one array: a vocabulary, its merges
DIMENSIONS = 4
ALIGNMENT = 32  # bytes, unless the file says otherwise

SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
UNSIGNED = 4
TEXT = 8
ARRAY = 9

# An entry of the table of tensors: name, shape, kind, and offset in bytes from the first tensor.
Described = tuple[str, tuple[int, ...], GGMLQuantizationType, int]


@dataclass(frozen=True)
class GgufTensor:
    """Tensor of the table; `shape` as in ggml, the fastest dimension first."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    begin: int  # bytes from the start of the file
    end: int

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class GgufHeader:
    """Header of a GGUF file: scalar and text metadata, lengths of arrays, and tensors."""

    architecture: str
    metadata: dict[str, Any]
    lengths: dict[str, int]
    places: dict[
        str, tuple[int, int]
    ]  # of each metadata entry in the file: first byte, past its last
    tensors: dict[str, GgufTensor]

    @property
    def alignment(self) -> int:
        alignment: int = self.metadata.get("general.alignment", ALIGNMENT)
        return alignment

    def of_model(self, key: str) -> Any:
        """Return a metadata entry under the architecture's own prefix, None where there is none."""
        return self.metadata.get(f"{self.architecture}.{key}")


def read_header(path: Path) -> GgufHeader:
    """Read all but the tensors' bytes. Raises DamagedWeights with the first thing that is wrong."""
    with path.open("rb") as stream:
        reader = _Reader(stream, path)
        tensor_count, entry_count = _read_counts(reader)
        metadata, lengths, places = _read_metadata(reader, entry_count)
        alignment = _alignment(reader, metadata)
        table = [_read_tensor(reader) for _ in range(tensor_count)]
        tensors = _place(reader, table, alignment)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise reader.damage(Damage.BAD_HEADER, "names no architecture (`general.architecture`)")
    return GgufHeader(architecture, metadata, lengths, places, tensors)


def write_abridged(path: Path, header: GgufHeader, target: Path) -> None:
    """Write a file of the same metadata and names, without vocabulary and without the tensors'
    bytes.

    The vocabulary's length is kept, as `vocab_size`. Python readers would spend seconds on a
    vocabulary that nobody needs here.
    """
    kept_places = [place for key, place in header.places.items() if not _is_vocabulary(key, header)]
    added = b""
    if header.of_model("vocab_size") is None:
        size = header.lengths.get("tokenizer.ggml.tokens", 0)
        added = _text(f"{header.architecture}.vocab_size") + struct.pack("<II", UNSIGNED, size)
    entries = len(kept_places) + bool(added)
    with path.open("rb") as source, target.open("wb") as out:
        out.write(MAGIC + struct.pack("<IQQ", VERSIONS[-1], len(header.tensors), entries))
        for begin, end in kept_places:
            source.seek(begin)
            out.write(source.read(end - begin))
        out.write(added)
        for name in header.tensors:
            out.write(_text(name))
            out.write(struct.pack("<IQIQ", 1, 1, GGMLQuantizationType.F32, 0))
        out.write(bytes(2 * header.alignment))


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _is_vocabulary(key: str, header: GgufHeader) -> bool:
    return key in header.lengths and key.startswith("tokenizer.")


class _Reader:
    """Reader of a file's beginning, bounded by the file's length and a header's limit."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream = stream
        self.name = path.name
        self.size = path.stat().st_size
        self.at = 0

    def damage(self, kind: Damage, detail: str) -> DamagedWeights:
        return DamagedWeights(kind, self.name, detail)

    def take(self, count: int) -> bytes:
        self._advance(count)
        return self.stream.read(count)

    def skip(self, count: int) -> None:
        self._advance(count)
        self.stream.seek(count, 1)

    def number(self, form: str) -> Any:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value

    def count(self, what: str, limit: int) -> int:
        """Return a 64-bit count or length of `what`, refused beyond the limit."""
        value: int = self.number("<Q")
        if value > limit:
            raise self.damage(Damage.BAD_HEADER, (f"declares {value} {what}; the limit is {limit}"))
        return value

    def text(self, what: str, limit: int) -> str:
        raw = self.take(self.count(f"bytes of {what}", limit))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.damage(Damage.BAD_HEADER, f"{what} is not UTF-8") from None

    def _advance(self, count: int) -> None:
        self.at += count
        if self.at > self.size:
            detail = f"the header exceeds the file of {self.size} bytes"
            raise self.damage(Damage.TRUNCATED, detail)
        if self.at > HEADER_LIMIT:
            raise self.damage(Damage.BAD_HEADER, f"the header is longer than {HEADER_LIMIT} bytes")


def _read_counts(reader: _Reader) -> tuple[int, int]:
    """Check magic and version, and return the numbers of tensors and of metadata entries."""
    if reader.size < len(MAGIC) or (magic := reader.take(len(MAGIC))) != MAGIC:
        begins = "" if reader.size < len(MAGIC) else f": it starts with {magic!r}"
        raise reader.damage(Damage.BAD_HEADER, f"is not a GGUF file{begins}")
    version = reader.number("<I")
    if version & 0xFFFF == 0 and version:
        raise reader.damage(Damage.BAD_HEADER, "is a GGUF file for big-endian machines")
    if version not in VERSIONS:
        supported = " and ".join(map(str, VERSIONS))
        raise reader.damage(Damage.BAD_HEADER, f"is GGUF version {version}; supported: {supported}")
    tensors = reader.count("tensors", TENSORS_LIMIT)
    if tensors == 0:
        raise reader.damage(Damage.BAD_HEADER, "holds no tensor")
    return tensors, reader.count("metadata entries", ENTRIES_LIMIT)


Places = dict[str, tuple[int, int]]


def _read_metadata(reader: _Reader, count: int) -> tuple[dict[str, Any], dict[str, int], Places]:
    """Return scalars and texts by key, the length of each array, and each entry's position."""
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    places: Places = {}
    for _ in range(count):
        begin = reader.at
        key = reader.text("a metadata key", KEY_LIMIT)
        if key in places:
            raise reader.damage(Damage.BAD_HEADER, f"has the metadata {key[:100]!r} twice")
        kind = reader.number("<I")
        if kind in SCALARS:
            metadata[key] = reader.number(SCALARS[kind])
        elif kind == TEXT:
            metadata[key] = reader.text(f"the metadata {key[:100]!r}", TEXT_LIMIT)
        elif kind == ARRAY:
            lengths[key] = _skip_array(reader, key)
        else:
            raise _unknown_kind(reader, key, kind)
        places[key] = begin, reader.at
    return metadata, lengths, places


def _skip_array(reader: _Reader, key: str) -> int:
    kind = reader.number("<I")
    count = reader.count(f"items of {key[:100]!r}", ITEMS_LIMIT)
    if kind in SCALARS:
        reader.skip(count * struct.calcsize(SCALARS[kind]))
    elif kind == TEXT:
        for _ in range(count):
            reader.skip(reader.count(f"bytes of an item of {key[:100]!r}", TEXT_LIMIT))
    else:
        raise _unknown_kind(reader, key, kind)
    return count


def _unknown_kind(reader: _Reader, key: str, kind: int) -> DamagedWeights:
    return reader.damage(Damage.BAD_HEADER, f"metadata {key[:100]!r} is of unknown kind {kind}")


def _alignment(reader: _Reader, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise reader.damage(Damage.BAD_HEADER, f"cannot be aligned to {alignment!r} bytes")
    return alignment


def _read_tensor(reader: _Reader) -> Described:
    """Return name, shape, kind and offset of one entry of the table."""
    name = reader.text("a tensor's name", NAME_LIMIT)
    if not name:
        detail = "a tensor has no name; perhaps there are fewer than the header counts"
        raise reader.damage(Damage.BAD_HEADER, detail)
    dimensions = reader.number("<I")
    if not 1 <= dimensions <= DIMENSIONS:
        detail = f"{name}: must have 1 to {DIMENSIONS} dimensions, not {dimensions}"
        raise reader.damage(Damage.WRONG_SHAPE, detail)
    shape = tuple(reader.number("<Q") for _ in range(dimensions))
    number = reader.number("<I")
    try:
        kind = GGMLQuantizationType(number)
        block, _ = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise reader.damage(Damage.WRONG_DTYPE, f"{name}: unknown kind {number}") from None
    if shape[0] % block or not all(0 < size < 1 << 40 for size in shape):
        detail = f"{name}: shape {list(shape)} is not possible for {kind.name}"
        raise reader.damage(Damage.WRONG_SHAPE, detail)
    return name, shape, kind, reader.number("<Q")


def _place(reader: _Reader, table: list[Described], alignment: int) -> dict[str, GgufTensor]:
    """Return the tensors of the table with their positions in the file.

    Raises DamagedWeights unless they follow each other and end where the file ends: with a wrong
    count of tensors, everything would be read from the wrong place.
    """
    start = at = _aligned(reader.at, alignment)
    tensors: dict[str, GgufTensor] = {}
    for name, shape, kind, offset in table:
        if name in tensors:
            raise reader.damage(Damage.DUPLICATE_TENSOR, f"{name} is there twice")
        if start + offset != at:
            detail = f"{name}: gap or overlap at byte {min(start + offset, at)}"
            raise reader.damage(Damage.BAD_HEADER, detail)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        end = at + math.prod(shape) // block * block_bytes
        if end > reader.size:
            detail = f"{name} ends at byte {end}, the file at {reader.size}"
            raise reader.damage(Damage.TRUNCATED, detail)
        tensors[name] = GgufTensor(name, shape, kind, at, end)
        at = _aligned(end, alignment)
    if reader.size > at:
        detail = f"{reader.size - at} extra bytes after the last of {len(table)} tensors"
        raise reader.damage(Damage.BAD_HEADER, detail)
    return tensors


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment
