"""Where tasks are read from: one module per format, each a source that gives records one after another, in bounded memory.

    jsonl      JSON lines
    csv        comma, semicolon, tab or bar separated texts with a header
    parquet    Parquet
    arrow      Arrow IPC, as file and as stream
    folder     a data set in a folder: as `datasets` saves it, or its files of one of the formats above
    hub        a data set of the Hugging Face Hub, by a process that says it as JSON lines

A source is strict: what it gives is JSON as `apps.accounts.strict_json` means it, or a BadLine with its number and reason.
"""

from pathlib import Path

from apps.accounts.confining import require_decoder
from apps.tasksets.sources.arrow import Arrow, is_arrow
from apps.tasksets.sources.csv import Csv
from apps.tasksets.sources.folder import Folder
from apps.tasksets.sources.jsonl import JsonLines
from apps.tasksets.sources.parquet import MAGIC as PARQUET
from apps.tasksets.sources.parquet import Parquet
from apps.tasksets.sources.records import NotReadable, Source

FILES = {"jsonl": JsonLines, "csv": Csv, "parquet": Parquet, "arrow": Arrow}
FORMATS = ("auto", *FILES)
SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow",
}  # fmt: skip


def guessed(path: Path) -> str:
    """The format of a file: by its first bytes where they tell, else by the end of its name, else JSON lines."""
    with path.open("rb") as stream:
        first = stream.read(8)
    if first.startswith(PARQUET):
        return "parquet"
    return "arrow" if is_arrow(first) else SUFFIXES.get(path.suffix.lower(), "jsonl")


def opened(path: Path, format: str = "auto", split: str = "") -> Source:
    """What reads the file or folder. Raises NotReadable where it is nothing that can be read so, OSError.

    Not for web processes.
    """
    require_decoder()
    if path.is_dir():
        return Folder(path, lambda file: opened(file, format), SUFFIXES, format, split)
    if split:
        raise NotReadable("a split is of a folder; this is a file")
    return FILES[guessed(path) if format == "auto" else format](path)
