"""Stored form of chat messages: a text, or a list of texts and pictures.

A part is {"type": "text", "text": …} or {"type": "image", "picture": sha256 of a Picture, "width":
…, "height": …}, in pixels, so that a page can leave room for it without asking. From outside a
picture comes as OpenAI spells it, {"type": "image_url", "image_url": {"url":
"data:image/png;base64,…"}}; nothing is ever fetched.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from apps.tasksets.pictures import MAX_BYTES, BadPicture, EncodedPicture, encode_picture


class TextPart(TypedDict):
    """Part of a message that is text."""

    type: Literal["text"]
    text: str


class PicturePart(TypedDict):
    """Part of a message that shows a picture; width and height are in pixels."""

    type: Literal["image"]
    picture: str
    width: int
    height: int


Part = TextPart | PicturePart
Content = str | list[Part]
ReadPath = Callable[[str], bytes]

MAX_PARTS = 64
MAX_PICTURES = 16  # of one message
NONE_KNOWN: Mapping[str, EncodedPicture] = MappingProxyType({})
PICTURES = frozenset(
    {"image", "image_url", "input_image"}
)  # as those who speak of pictures call a part of a message
KINDS = "text, image_url"
PICTURE_MARK = re.compile(r"^\[picture \d+\]$", re.MULTILINE)  # as `content_text` writes it


class BadContent(ValueError):
    """Message content in a form that is not accepted.

    `where` is the place in it, such as "[2].image_url".
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where = where
        self.why = why


# -- from outside


def read_content(
    value: object,
    pictures: dict[str, EncodedPicture],
    path: ReadPath | None = None,
    decoded: Mapping[str, EncodedPicture] = NONE_KNOWN,
) -> Content:
    """Convert a message's content from outside to the stored form. Raises BadContent.

    Its images are added to `pictures`, by name. `path` reads the image of a part {"type": "image",
    "path": …}; without it such a part is refused. `decoded`: images that were read already, whose
    parts are in the stored form. Parts that are all text become one text.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not 0 < len(value) <= MAX_PARTS:
        raise BadContent("", f"must be text or a list of 1 to {MAX_PARTS} parts")
    parts = [_part(f"[{place}]", part, pictures, path, decoded) for place, part in enumerate(value)]
    if len(pictures_in(parts)) > MAX_PICTURES:
        raise BadContent("", f"contains more than {MAX_PICTURES} images")
    if pictures_in(parts):
        return parts
    return "".join(part["text"] for part in parts if part["type"] == "text")


def holds_picture(content: object) -> bool:
    """Tell whether a message's content in a foreign form holds a picture."""
    parts = content if isinstance(content, list) else [content]
    return any(
        isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in PICTURES
        for part in parts
    )


def _part(
    where: str,
    part: Any,
    pictures: dict[str, EncodedPicture],
    path: ReadPath | None,
    decoded: Mapping[str, EncodedPicture],
) -> Part:
    match part:
        case {"type": "image", "picture": str(name)} if name in decoded:
            pictures[name] = decoded[name]
            return picture_part(decoded[name])
        case {"type": "text", "text": str(text), **rest} if not rest:
            return {"type": "text", "text": text}
        case {
            "type": "image_url",
            "image_url": {"url": str(url), **detail},
            **rest,
        } if not rest and set(detail) <= {"detail"}:
            return _store_picture(f"{where}.image_url.url", lambda: decode_data_url(url), pictures)
        case {"type": "image", "path": str(name), **rest} if not rest and path:
            return _store_picture(f"{where}.path", lambda: path(name), pictures)
        case {"type": "image", "path": _}:
            raise BadContent(
                f"{where}.path",
                "a file reference is only allowed in an imported file; use a data: URL",
            )
    raise BadContent(where, f"must be a part with one of these types and no other fields: {KINDS}")


def _store_picture(
    where: str, raw: Callable[[], bytes], pictures: dict[str, EncodedPicture]
) -> Part:
    try:
        picture = encode_picture(raw())
    except BadPicture as error:
        raise BadContent(where, str(error)) from None
    pictures[picture.sha256] = picture
    return picture_part(picture)


def picture_part(picture: EncodedPicture) -> PicturePart:
    """Return the part that shows this picture."""
    return {
        "type": "image",
        "picture": picture.sha256,
        "width": picture.width,
        "height": picture.height,
    }


def decode_data_url(url: str) -> bytes:
    """Return the bytes of a data: address in base64.

    Raises BadPicture: other addresses are not fetched.
    """
    head, comma, body = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64") or not comma:
        url_start = url[:40] + ("…" if len(url) > 40 else "")
        raise BadPicture(
            f"must be data:image/…;base64,…, not {url_start!r}: URLs are not downloaded"
        )
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise BadPicture(f"is larger than the limit of {MAX_BYTES} bytes")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadPicture("is not base64") from None


# -- as it is kept


def pictures_in(content: Content) -> list[str]:
    """Return the names of the pictures in a content, in order, each as often as it is shown."""
    return (
        []
        if isinstance(content, str)
        else [part["picture"] for part in content if part["type"] == "image"]
    )


def list_pictures(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return names of the pictures in these messages, in order."""
    return [name for message in messages for name in pictures_in(message["content"])]


def content_text(content: Content, before: int = 0) -> str:
    """Return a message's content as text, with "[picture 1]" in place of its first picture.

    `before`: how many pictures came in earlier messages.
    """
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        before += part["type"] == "image"
        texts.append(part["text"] if part["type"] == "text" else f"[picture {before}]")
    return "\n".join(texts)


def join_contents(first: Content, second: Content) -> Content:
    """Join the contents of two messages by the same speaker."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: Content) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def as_texts(messages: Iterable[dict]) -> list[dict]:
    """Return the messages with texts alone; pictures are counted through all of them."""
    picture_count = 0
    texts = []
    for message in messages:
        texts.append({**message, "content": content_text(message["content"], picture_count)})
        picture_count += len(pictures_in(message["content"]))
    return texts
