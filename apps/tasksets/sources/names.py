"""Format, compression and split of a data file, derived from its name."""

from pathlib import PurePath

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
ZIP = ".zip"
# Ends that pages offer to choose files by.
ALL_SUFFIXES = (*FORMATS, *COMPRESSED, ZIP)


def find_format_suffix(name: str) -> str:
    """Return the end of a data file's name that tells its format, without what tells of
    compression; "" where none does."""
    suffix = PurePath(plain_name(name)).suffix.lower()
    return suffix if suffix in FORMATS else ""


def format_by_name(name: str) -> str:
    """Return the format that the name of a data file tells; "" where it is none."""
    return FORMATS.get(find_format_suffix(name), "")


def plain_name(name: str) -> str:
    """Return the name without the end that says how the file is compressed."""
    path = PurePath(name)
    return path.stem if path.suffix.lower() in COMPRESSED else path.name
