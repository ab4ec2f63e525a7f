"""A policy speaks text: what action that is by the environment's schema, and how an observation reads."""

import json

from apps.accounts import strict_json
from apps.environments.pull.errors import NoAction

UNSAID = {"metadata"}  # of actions and observations: for programs, not for the policy
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float, "boolean": bool}


def action_of(schema: dict, text: str) -> object:
    """The action that the policy's text is, for this schema. Raises NoAction when it is none.

    A schema of a text takes it as it is; of an object with one text field, as that field. For all others the policy writes JSON:
    an object is looked for from the first { to the last }.
    """
    kind = schema.get("type", "string")
    if kind == "string":
        return _one_of(schema, text.strip() if "enum" in schema else text)
    if field := only_text(schema):
        return {field: text}
    written = text[text.find("{") : text.rfind("}") + 1] if kind == "object" else text.strip()
    try:
        action = strict_json.decode(written)
    except strict_json.NotStrictJson as why:
        raise NoAction(f"say {_asked_for(schema)} in JSON ({why})") from None
    if not isinstance(action, TYPES.get(kind, object)) or (isinstance(action, bool) and kind != "boolean"):
        raise NoAction(f"say {_asked_for(schema)} in JSON")
    return _one_of(schema, action)


def only_text(schema: dict) -> str:
    """The one text field of an object's schema; empty when there are more, or others."""
    fields = {name: field for name, field in _properties(schema).items() if name not in UNSAID}
    if len(fields) != 1:
        return ""
    ((name, field),) = fields.items()
    return name if isinstance(field, dict) and field.get("type") == "string" else ""


def no_action(why: Exception) -> str:
    """What the policy reads then; it earns the least that the environment's range has."""
    return f"that is no action: {why}"


def observation_of(said: object) -> str | list:
    """As the policy reads it: texts and chat messages as they are, an object with one text as that text, others as JSON."""
    if isinstance(said, dict):
        said = {name: value for name, value in said.items() if name not in UNSAID}
        if len(said) == 1 and isinstance(next(iter(said.values())), str):
            return next(iter(said.values()))
    if isinstance(said, str) or _is_chat(said):
        return said
    return json.dumps(said, ensure_ascii=False)


def _is_chat(said: object) -> bool:
    return isinstance(said, list) and said != [] and all(isinstance(message, dict) and "role" in message for message in said)


def _one_of(schema: dict, action: object) -> object:
    if "enum" in schema and action not in schema["enum"]:
        raise NoAction(f"say one of {', '.join(map(str, schema['enum']))}")
    return action


def _asked_for(schema: dict) -> str:
    names = [name for name in _properties(schema) if name not in UNSAID]
    return f"an object with {', '.join(names)}" if names else f"what is of type {schema.get('type')}"


def _properties(schema: dict) -> dict:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}
