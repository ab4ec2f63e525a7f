"""Data sets in a folder: as `save_to_disk` of `datasets` writes them, or plain data files.

Rows are numbered through all files in the order of their names, and a bad one names its file. Which
split a plain file is of is told by its name or a folder's, as the Hub has it:
`train-00000-of-00002.parquet`, `test/part.jsonl`. Where a repository of the Hub has several
configurations, each in a folder, a split is named with its folder: `main/train`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from apps.accounts import strict_json
from apps.accounts.contained_paths import UnsafePath, contained_file, contained_folder, single_name
from apps.tasksets.sources.names import format_by_name, plain_name
from apps.tasksets.sources.records import BadLine, NotReadable, Record, Source

DICT = "dataset_dict.json"
STATE = "state.json"
# Names of files as the Hub shards a split: train_prefs-00000-of-00002, or train/0000 of its Parquet
# branch.
SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
NUMBERED = re.compile(r"\d{4,6}")
SPLITS = ("train", "test", "validation", "valid", "dev", "eval")
MAX_STATE_BYTES = 16 << 20  # bytes
OURS = ("dataset_info.json", "dataset_infos.json", DICT, STATE)  # files about the data


class Folder:
    """Files of one split in a folder, read one after the other.

    Raises NotReadable if it does not say which files are meant.
    """

    def __init__(
        self, path: Path, reader: Callable[[Path], Source], format: str, split: str
    ) -> None:
        self.path = path
        files = _arrow_files(path, split) if _is_saved(path) else _plain(path, format, split)
        self.files = [(file, reader(file)) for file in files]
        self.size = sum(source.size for _, source in self.files)
        self.at = 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        before = rows = 0
        for file, source in self.files:
            number = 0
            for number, record in enumerate(source, start=1):
                self.at = before + source.at
                yield self._with_place(record, rows + number, file)
            rows = rows + number
            before = before + source.size
        self.at = self.size

    def _with_place(self, record: Record | BadLine, number: int, file: Path) -> Record | BadLine:
        if isinstance(record, Record) or len(self.files) == 1:
            return replace(record, number=number)
        return replace(
            record,
            number=number,
            reason=f"{file.relative_to(self.path)}, line {record.number}: {record.reason}",
        )


def list_splits(path: Path) -> list[str]:
    """Return the names of its splits; none where it has but one without a name.

    Raises NotReadable.
    """
    if (path / DICT).is_file():
        return [
            _part(path, name, contained_folder).name
            for name in _read_listing(path / DICT, "splits")
        ]
    if (path / STATE).is_file():
        return []
    return sorted(set(_name_splits(path, _data_files(path), "").values()) - {""})


def _is_saved(path: Path) -> bool:
    return (path / DICT).is_file() or (path / STATE).is_file()


def _arrow_files(path: Path, split: str) -> list[Path]:
    if (path / DICT).is_file():
        splits = _read_listing(path / DICT, "splits")
        if split not in splits and (split or len(splits) > 1):
            raise NotReadable(f"choose a split: {', '.join(splits)}")
        return _arrow_files(_part(path, split or splits[0], contained_folder), "")
    if split:
        raise NotReadable("the folder has a single split, so do not name one")
    names = [
        part.get("filename") if isinstance(part, dict) else None
        for part in _read_listing(path / STATE, "_data_files", (dict,))
    ]
    return [_part(path, name, contained_file) for name in names]


def _read_listing(file: Path, key: str, kinds: tuple[type, ...] = (str,)) -> list:
    file = _part(file.parent, file.name, contained_file)
    try:
        document = strict_json.read_json_file(file, MAX_STATE_BYTES)
    except strict_json.NotStrictJson as error:
        raise NotReadable(f"{file.name}: {error}") from None
    entries = document.get(key) if isinstance(document, dict) else None
    if (
        not isinstance(entries, list)
        or not entries
        or not all(isinstance(entry, kinds) for entry in entries)
    ):
        raise NotReadable(f"{file.name}: {key} is empty")
    return entries


def _part(path: Path, name: object, find: Callable[[Path, object], Path]) -> Path:
    """Return what lies in the folder under this name. Raises NotReadable."""
    try:
        single_name(name)
        return find(path, name)
    except UnsafePath as error:
        raise NotReadable(f"the folder names a file that cannot be read: {error}") from None


def _contained(path: Path, file: Path) -> Path:
    """Return a file found below the folder. Raises NotReadable for a link that leads out of it."""
    try:
        contained_file(path, file.relative_to(path).as_posix())
    except UnsafePath as error:
        raise NotReadable(f"the folder contains a file that cannot be read: {error}") from None
    return file


def _plain(path: Path, format: str, split: str) -> list[Path]:
    extension = "jsonl" if format == "json" else format  # names do not tell these two apart
    files = [file for file in _data_files(path) if extension in ("auto", format_by_name(file.name))]
    kinds = sorted({format_by_name(file.name) for file in files})
    if not files or len(kinds) > 1:
        what = (
            f"contains {' and '.join(kinds)}; choose one format" if files else "holds no data file"
        )
        raise NotReadable(f"the folder {what}")
    splits = _name_splits(path, files, split)
    split_names = sorted(set(splits.values()) - {""})
    if split:
        files = _files_of_split(path, splits, split)
    elif len(set(splits.values())) > 1:
        raise NotReadable(f"choose a split: {', '.join(split_names)}")
    if not files:
        raise NotReadable(f"no file belongs to the split {split!r}")
    return files


def _data_files(path: Path) -> list[Path]:
    files = (file for file in path.rglob("*") if format_by_name(file.name))
    return sorted(
        _contained(path, file)
        for file in files
        if file.name.lower() not in OURS
        and not _is_hidden(file.relative_to(path))
        and file.is_file()
    )


def _is_hidden(file: Path) -> bool:
    """Tell whether a program keeps the file for itself: copies of editors, files of macOS."""
    return file.parts[0] == "__MACOSX" or any(part.startswith(".") for part in file.parts)


def _files_of_split(path: Path, splits: Mapping[Path, str], split: str) -> list[Path]:
    """Return the files of the split of this name, or of the only one that is of its kind.

    Raises NotReadable where several are.
    """
    if split in splits.values():
        return [file for file, name in splits.items() if name == split]
    files = [file for file in splits if _split_of(file.relative_to(path), split) == split]
    names = sorted({splits[file] for file in files})
    if len(names) > 1:
        raise NotReadable(f"choose a split: {', '.join(names)}")
    return files


def _name_splits(path: Path, files: Sequence[Path], split: str) -> dict[Path, str]:
    """Return the split of each file; "" where its name tells none.

    Files in shards are of the split that their names begin with, so that train_prefs and train_sft
    are two. Where several folders have shards of one split, they are configurations of a data set,
    and the folder is part of the name.
    """
    relative = {file: file.relative_to(path) for file in files}
    shards = {file: shard for file, name in relative.items() if (shard := _shard_of(name))}
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, name in shards.values():
        folders[name].add(folder)
    names = {file: _split_of(name, split) for file, name in relative.items()}
    for file, (folder, name) in shards.items():
        names[file] = f"{folder}/{name}" if folder and len(folders[name]) > 1 else name
    return names


def _shard_of(file: Path) -> tuple[str, str] | None:
    """Return the folder and the split of a file that the Hub wrote; None for any other."""
    stem = PurePath(plain_name(file.name)).stem
    match = SHARD.fullmatch(stem)
    if match is None and not (NUMBERED.fullmatch(stem) and len(file.parts) > 1):
        return None
    folder = file.parent if match else file.parent.parent
    name = match[1] if match else file.parent.name
    is_split = _split_of(Path(name), "") != ""
    return (folder.as_posix().removeprefix("."), name) if is_split else None


def _split_of(file: Path, default: str) -> str:
    words = [word for part in file.parts for word in re.split(r"[^a-z0-9]+", part.lower())]
    return next((word for word in (default.lower(), *SPLITS) if word and word in words), "")
