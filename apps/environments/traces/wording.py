"""Convert messages between verifiers' form and ours."""

import base64
from collections.abc import Callable, Mapping

from apps.tasksets.messages import BadContent, Content, holds_picture, read_content
from apps.tasksets.pictures import EncodedPicture

PNG = "data:image/png;base64,"


def convert_message(message: Mapping, call: str, png: Callable[[str], bytes]) -> dict:
    """Convert our message to verifiers' form; `png` returns a picture's file by its name.

    A tool's result needs the id of a call: `call`, which is not read later.
    """
    converted = {"role": message["role"], "content": _parts_of(message["content"], png)}
    return {**converted, "tool_call_id": call} if message["role"] == "tool" else converted


def _parts_of(content: Content, png: Callable[[str], bytes]) -> str | list[dict]:
    if isinstance(content, str):
        return content
    return [
        (
            {
                "type": "image_url",
                "image_url": {"url": PNG + base64.b64encode(png(part["picture"])).decode()},
            }
            if part["type"] == "image"
            else dict(part)
        )
        for part in content
    ]


def ours(message: Mapping, pictures: dict[str, EncodedPicture]) -> dict:
    """Convert verifiers' message to our form; its pictures are re-encoded and added to `pictures`.

    Raises BadContent.
    """
    content = message["content"] or ""
    if not holds_picture(content):
        content = content if isinstance(content, str) else "".join(part["text"] for part in content)
    elif message["role"] != "user":
        raise BadContent("", "only the role user can show pictures")
    else:
        content = read_content(content, pictures)
    return {"role": message["role"], "content": content}
