"""Messages as verifiers has them, and as we have them."""

from collections.abc import Mapping

PNG = "data:image/png;base64,"


def message_of(message: Mapping, call: str) -> dict:
    """Ours in the other's words. A tool's result needs the id of a call: `call`, which nobody reads."""
    found = {"role": message["role"], "content": _parts_of(message["content"])}
    return {**found, "tool_call_id": call} if message["role"] == "tool" else found


def _parts_of(content: str | list[dict]) -> str | list[dict]:
    if isinstance(content, str):
        return content
    return [
        {"type": "image_url", "image_url": {"url": PNG + part["data"]}} if part["type"] == "image" else dict(part)
        for part in content
    ]


def ours(message: Mapping) -> dict:
    """The other's in our words."""
    content = message["content"] or ""
    if isinstance(content, str):
        return {"role": message["role"], "content": content}
    parts = [
        {"type": "image", "data": part["image_url"]["url"].removeprefix(PNG)} if part["type"] == "image_url" else dict(part)
        for part in content
    ]
    return {"role": message["role"], "content": parts}
