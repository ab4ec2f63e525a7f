"""Messages as verifiers has them, and as we have them."""

import base64
from collections.abc import Callable, Mapping

from apps.tasksets.messages import Content

PNG = "data:image/png;base64,"


def message_of(message: Mapping, call: str, png: Callable[[str], bytes]) -> dict:
    """Ours in the other's words; `png` gives a picture's file by its name. A tool's result needs the id of a call: `call`, which
    nobody reads.
    """
    found = {"role": message["role"], "content": _parts_of(message["content"], png)}
    return {**found, "tool_call_id": call} if message["role"] == "tool" else found


def _parts_of(content: Content, png: Callable[[str], bytes]) -> str | list[dict]:
    if isinstance(content, str):
        return content
    return [
        {"type": "image_url", "image_url": {"url": PNG + base64.b64encode(png(part["picture"])).decode()}}
        if part["type"] == "image" else dict(part)
        for part in content
    ]  # fmt: skip


def ours(message: Mapping) -> dict:
    """The other's in our words; it shows no picture."""
    content = message["content"] or ""
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return {"role": message["role"], "content": text}
