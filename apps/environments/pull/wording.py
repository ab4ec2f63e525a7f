"""Convert between the policy's text and an environment's actions and observations."""

import json
from typing import TypeGuard

from apps.accounts import strict_json
from apps.environments.pull.errors import NoAction

UNSAID = {"metadata"}  # fields for programs, not shown to the policy
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
}


def read_action(schema: dict, text: str) -> object:
    """Return the action that the policy's text means under this schema. Raises NoAction.

    Under a text schema it is the text itself, and for an object with one text field, that field.
    Otherwise the policy writes JSON; an object is searched from the first { to the last }.
    """
    kind = schema.get("type", "string")
    if kind == "string":
        return _require_in_enum(schema, text.strip() if "enum" in schema else text)
    if field := only_text(schema):
        return {field: text}
    written = text[text.find("{") : text.rfind("}") + 1] if kind == "object" else text.strip()
    try:
        action = strict_json.decode_json(written)
    except strict_json.NotStrictJson as why:
        raise NoAction(f"say {_describe_schema(schema)} in JSON ({why})") from None
    if not isinstance(action, TYPES.get(kind, object)) or (
        isinstance(action, bool) and kind != "boolean"
    ):
        raise NoAction(f"say {_describe_schema(schema)} in JSON")
    return _require_in_enum(schema, action)


def only_text(schema: dict) -> str:
    """Return the one text field of an object's schema; "" if it has more fields, or others."""
    fields = {name: field for name, field in _properties(schema).items() if name not in UNSAID}
    if len(fields) != 1:
        return ""
    ((name, field),) = fields.items()
    return name if isinstance(field, dict) and field.get("type") == "string" else ""


def no_action(why: Exception) -> str:
    """Return the policy's next observation after an invalid action.

    Such an action earns the lowest reward of the environment's range.
    """
    return f"that is no action: {why}"


def read_observation(observation: object) -> str | list:
    """Return an observation as the policy reads it.

    Texts and chat messages stay as they are, an object with one text becomes that text, and all
    others become JSON.
    """
    if isinstance(observation, dict):
        observation = {name: value for name, value in observation.items() if name not in UNSAID}
        texts = [value for value in observation.values() if isinstance(value, str)]
        if len(observation) == len(texts) == 1:
            return texts[0]
    if isinstance(observation, str) or _is_chat(observation):
        return observation
    return json.dumps(observation, ensure_ascii=False)


def _is_chat(observation: object) -> TypeGuard[list]:
    return (
        isinstance(observation, list)
        and observation != []
        and all(isinstance(message, dict) and "role" in message for message in observation)
    )


def _require_in_enum(schema: dict, action: object) -> object:
    if "enum" in schema and action not in schema["enum"]:
        raise NoAction(f"say one of {', '.join(map(str, schema['enum']))}")
    return action


def _describe_schema(schema: dict) -> str:
    names = [name for name in _properties(schema) if name not in UNSAID]
    return (
        f"an object with {', '.join(names)}" if names else f"what is of type {schema.get('type')}"
    )


def _properties(schema: dict) -> dict:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}
