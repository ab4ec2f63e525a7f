"""Sources of rows: one module per format, each yields records in bounded memory.

    jsonl          JSON lines
    json_document  JSON arrays, rows spelt over several lines, and objects that hold a list of rows
    csv            comma, semicolon, tab or bar separated texts with a header
    parquet        Parquet
    arrow          Arrow IPC, as file and as stream
    folder         a folder as `datasets` saves it, or files of one of the formats above
    archive        a zip file of such a folder
    hub            a data set of the Hugging Face Hub, by a process that says it as JSON lines
    streams        what lies under the formats of text: compression and encodings
    apart          a file that is read by a process of its own, with bounded memory

A source is strict: what it gives is JSON as `apps.accounts.strict_json` means it, or a BadLine with
its number and reason.
"""

from collections.abc import Callable
from pathlib import Path

from apps.accounts.confining import require_decoder
from apps.tasksets.sources.archive import Archive, is_zip
from apps.tasksets.sources.arrow import Arrow, is_arrow
from apps.tasksets.sources.csv import Csv
from apps.tasksets.sources.folder import Folder
from apps.tasksets.sources.json_document import JsonDocument, is_document
from apps.tasksets.sources.jsonl import JsonLines
from apps.tasksets.sources.names import format_by_name
from apps.tasksets.sources.parquet import MAGIC as PARQUET
from apps.tasksets.sources.parquet import Parquet
from apps.tasksets.sources.records import MAX_LINE_BYTES, NotReadable, Source
from apps.tasksets.sources.streams import detect_compression, first_bytes
from apps.tasksets.sources.tables import CompressedTable

FILES: dict[str, Callable[[Path], Source]] = {
    "jsonl": JsonLines,
    "json": JsonDocument,
    "csv": Csv,
    "parquet": Parquet,
    "arrow": Arrow,
}
FORMATS = ("auto", *FILES)
TABLES = ("parquet", "arrow")
TAR_MAGIC = b"ustar"
TAR_MAGIC_AT = 257


def guess_format(path: Path) -> str:
    """Return the format of a file: by what it holds where that tells, else by the end of its name,
    else JSON lines.

    Raises NotReadable.
    """
    first = first_bytes(path, MAX_LINE_BYTES + 2)
    if first.startswith(PARQUET):
        return "parquet"
    if first[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        raise NotReadable("a tar archive is not read; pack the folder as a zip file")
    if is_arrow(first):
        return "arrow"
    format = format_by_name(path.name) or "jsonl"
    return "json" if format == "jsonl" and is_document(first) else format


def open_source(path: Path, format: str = "auto", split: str = "") -> Source:
    """Return what reads the file or folder. Raises NotReadable where it is nothing that can be read
    so, OSError.

    Not for web processes.
    """
    require_decoder()
    if path.is_dir():
        return Folder(path, lambda file: open_source(file, format), format, split)
    if is_zip(path):
        return Archive(path, lambda folder: open_source(folder, format, split))
    if split:
        raise NotReadable("only a folder has splits, but this is a file")
    format = guess_format(path) if format == "auto" else format
    reader = FILES[format]
    if format in TABLES and detect_compression(path):
        return CompressedTable(path, reader)
    return reader(path)
