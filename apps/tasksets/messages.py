"""Chat messages as they are kept: what is said is a text, or a list of parts, texts and pictures.

A part is {"type": "text", "text": …} or {"type": "image", "picture": sha256 of a Picture, "width": …, "height": …}, in
pixels, so that a page can leave room for it without asking. From outside a picture comes as OpenAI spells it,
{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}; nothing is ever fetched.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from apps.tasksets.pictures import MOST_BYTES, BadPicture, Encoded, encode

Part = dict[str, str | int]
Content = str | list[Part]
ReadPath = Callable[[str], bytes]

MOST_PARTS, MOST_PICTURES = 64, 16  # of one message
NONE_KNOWN: Mapping[str, Encoded] = MappingProxyType({})
PICTURES = frozenset({"image", "image_url", "input_image"})  # as those who speak of pictures call a part of a message
KINDS = "text, image_url"


class BadContent(ValueError):
    """What a message says is not in a form that we take; `where` is the place in it, "[2].image_url" for one."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where, self.why = where, why


# -- from outside ----------------------------------------------------------------------------------------------------


def read_content(
    said: object, taken: dict[str, Encoded], path: ReadPath | None = None, known: Mapping[str, Encoded] = NONE_KNOWN
) -> Content:
    """What a message from outside says, as it is kept; its pictures are added to `taken`, by name. Raises BadContent.

    `path` reads the picture of a part {"type": "image", "path": …}; without it such a part is refused. `known`: pictures that were
    read already, whose parts are as they are kept. Parts that are all text become one text.
    """
    if isinstance(said, str):
        return said
    if not isinstance(said, list) or not 0 < len(said) <= MOST_PARTS:
        raise BadContent("", f"must be a text, or a list of 1 to {MOST_PARTS} parts")
    parts = [_part(f"[{place}]", part, taken, path, known) for place, part in enumerate(said)]
    if len(pictures_in(parts)) > MOST_PICTURES:
        raise BadContent("", f"holds more than {MOST_PICTURES} pictures")
    return parts if pictures_in(parts) else "".join(part["text"] for part in parts)


def holds_picture(content: object) -> bool:
    """Whether what a message says, as others write it, is not text alone: such a part is told apart from a mistake."""
    parts = content if isinstance(content, list) else [content]
    return any(isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in PICTURES for part in parts)


def _part(where: str, part: Any, taken: dict[str, Encoded], path: ReadPath | None, known: Mapping[str, Encoded]) -> Part:
    match part:
        case {"type": "image", "picture": str(name)} if name in known:
            taken[name] = known[name]
            return shown(known[name])
        case {"type": "text", "text": str(text), **rest} if not rest:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url), **detail}, **rest} if not rest and set(detail) <= {"detail"}:
            return _kept(f"{where}.image_url.url", lambda: data_of(url), taken)
        case {"type": "image", "path": str(name), **rest} if not rest and path:
            return _kept(f"{where}.path", lambda: path(name), taken)
        case {"type": "image", "path": _}:
            raise BadContent(f"{where}.path", "is taken from a file beside an imported taskset alone; send a data: address")
    raise BadContent(where, f"must be a part of one of these types, with nothing else in it: {KINDS}")


def _kept(where: str, raw: Callable[[], bytes], taken: dict[str, Encoded]) -> Part:
    try:
        picture = encode(raw())
    except BadPicture as error:
        raise BadContent(where, str(error)) from None
    taken[picture.sha256] = picture
    return shown(picture)


def shown(picture: Encoded) -> Part:
    """The part that shows this picture."""
    return {"type": "image", "picture": picture.sha256, "width": picture.width, "height": picture.height}


def data_of(url: str) -> bytes:
    """The bytes of a data: address in base64. Raises BadPicture: other addresses are not fetched."""
    head, comma, body = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64") or not comma:
        begun = url[:40] + ("…" if len(url) > 40 else "")
        raise BadPicture(f"must be data:image/…;base64,…, not {begun!r}: no address is ever fetched")
    if len(body) > MOST_BYTES * 4 // 3 + 4:
        raise BadPicture(f"has more than the {MOST_BYTES} bytes that are taken")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadPicture("is not base64") from None


# -- as it is kept ---------------------------------------------------------------------------------------------------


def pictures_in(content: Content) -> list[str]:
    """Names of the pictures in what a message says, in order, as often as they are shown."""
    return [] if isinstance(content, str) else [part["picture"] for part in content if part["type"] == "image"]


def pictures_of(messages: Iterable[dict]) -> list[str]:
    """Names of the pictures in these messages, in order."""
    return [name for message in messages for name in pictures_in(message["content"])]


def text_of(content: Content, before: int = 0) -> str:
    """What a message says, as a text: "[picture 1]" stands for its first picture, where `before` came earlier."""
    if isinstance(content, str):
        return content
    said = []
    for part in content:
        before += part["type"] == "image"
        said.append(part["text"] if part["type"] == "text" else f"[picture {before}]")
    return "\n".join(said)


def joined(one: Content, other: Content) -> Content:
    """What two messages of one speaker say, as one message."""
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: Content) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def as_texts(messages: Iterable[dict]) -> list[dict]:
    """The messages with texts alone; pictures are counted through all of them."""
    seen, told = 0, []
    for message in messages:
        told.append({**message, "content": text_of(message["content"], seen)})
        seen += len(pictures_in(message["content"]))
    return told
