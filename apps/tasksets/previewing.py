"""A file's first rows, columns and splits as a document, so that pages need not decode the file.

Only a confined worker calls this. Pictures are decoded here, too: the preview has their sizes.
"""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from apps.accounts.public_text import public_text
from apps.tasksets.column_choice import MAX_COLUMN_LENGTH, MAX_COLUMNS, ImportOptions
from apps.tasksets.layouts.context import PICTURES
from apps.tasksets.messages import decode_data_url, picture_part
from apps.tasksets.pictures import BadPicture, encode_picture
from apps.tasksets.sources import folder, open_source
from apps.tasksets.sources.records import EXCERPT, BadLine, NotReadable, Record, line_excerpt

ROWS = 20
MAX_TEXT_LENGTH = 200_000  # characters of one text
MAX_REASON_LENGTH = 1_000  # characters of what is wrong with a row or a file
MAX_PREVIEW_BYTES = 2 * 1024 * 1024  # bytes of all rows as JSON; later rows are left out
ADDRESSES = ("data:", "http://", "https://")
FILES_BESIDE = "a file reference is only allowed in an imported file; use a data: URL"


def preview_file(path: Path, how: ImportOptions) -> dict[str, Any]:
    """Return {columns, rows, pictures, splits, refusal}; a row is [line, fields or null, reason,
    excerpt].

    Raises OSError, MemoryError.
    """
    preview: dict[str, Any] = {
        "columns": [],
        "rows": [],
        "pictures": {},
        "splits": [],
        "refusal": "",
    }
    try:
        preview["splits"] = folder.list_splits(path) if path.is_dir() else []
        records = list(islice(open_source(path, how.format, how.split), ROWS))
    except NotReadable as error:
        preview["refusal"] = storable_refusal(public_text(error, {path: "the file"}))
        return preview
    names = (name for record in records if isinstance(record, Record) for name in record.fields)
    short = dict.fromkeys(name for name in names if len(name) <= MAX_COLUMN_LENGTH)
    preview["columns"] = list(short)[:MAX_COLUMNS]
    size = 0
    for record in records:
        row = _row(record, preview["pictures"])
        size += len(json.dumps(row))
        if size > MAX_PREVIEW_BYTES and preview["rows"]:
            break
        preview["rows"].append(row)
    return preview


def storable_refusal(text: str) -> str:
    """Return the text without characters that a database refuses: an error may quote the file."""
    return text[:MAX_REASON_LENGTH].replace("\0", "\u2400").encode(errors="replace").decode()


def _row(record: Record | BadLine, pictures: dict[str, list[int]]) -> list:
    if isinstance(record, BadLine):
        return [record.number, None, storable_refusal(record.reason), record.excerpt]
    fields = {
        name: _picture_parts(value) if name in PICTURES else value
        for name, value in record.fields.items()
    }
    return [record.number, _shortened(fields, pictures), "", line_excerpt(record.raw)[:EXCERPT]]


def _picture_parts(value: Any) -> Any:
    """Return a column of pictures with parts in the place of names of files, which nobody reads
    for a preview.
    """
    if isinstance(value, list):
        return [_picture_parts(picture) for picture in value]
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("url") or value.get("path")
    is_file = isinstance(value, str) and not value.startswith(ADDRESSES)
    return _no_picture(FILES_BESIDE) if is_file else value


def _shortened(value: Any, pictures: dict[str, list[int]]) -> Any:
    """Return the value with texts cut and pictures decoded.

    It is at most as deep as strict JSON is.
    """
    match value:
        case str() if value.startswith("data:image/"):
            return _picture(value, pictures)
        case str():
            return value if len(value) <= MAX_TEXT_LENGTH else value[:MAX_TEXT_LENGTH] + "…"
        case list():
            return [_shortened(part, pictures) for part in value]
        case {
            "type": "image_url",
            "image_url": {"url": str(url), **detail},
            **rest,
        } if not rest and set(detail) <= {"detail"}:
            return _picture(url, pictures)
        case {"type": "image", "path": str(), **rest} if not rest:
            return _no_picture(FILES_BESIDE)
        case dict():
            return {name: _shortened(part, pictures) for name, part in value.items()}
    return value


def _picture(url: str, pictures: dict[str, list[int]]) -> Mapping[str, Any]:
    try:
        picture = encode_picture(decode_data_url(url))
    except BadPicture as error:
        return _no_picture(str(error))
    pictures[picture.sha256] = [picture.width, picture.height]
    return picture_part(picture)


def _no_picture(why: str) -> dict[str, Any]:
    return {"type": "image", "path": why}
