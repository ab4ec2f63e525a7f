"""OpenEnv's data formats: schemas, actions, observations, states.

OpenEnv's actions and observations are objects, a policy's are text. If an action schema is not that
of an object, it is served as an object with the one field `action`. An observation is what a policy
reads: a text (`text`) or chat messages (`messages`).
"""

import json
from typing import Any

from jsonschema.exceptions import ValidationError

from apps.environments.json_schemas import BadSchema, errors_in
from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull.wording import only_text

ACTION = "action"
METADATA = {"type": "object", "description": "For programs; the policy never sees it."}
OBSERVATION = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Text for the policy."},
        "messages": {
            "type": "array",
            "description": "Chat messages for the policy.",
            "items": {
                "type": "object",
                "properties": {
                    "role": {"enum": ["user", "tool", "system"]},
                    "content": {"type": "string"},
                },
                "required": ["role", "content"],
            },
        },
        "metadata": METADATA,
    },
    "required": ["metadata"],
}
STATE = {
    "type": "object",
    "properties": {
        "episode_id": {
            "type": ["string", "null"],
            "description": "As given in the reset, else rftweb's number of the episode.",
        },
        "step_count": {"type": "integer", "minimum": 0},
        "seed": {"type": ["integer", "null"]},
        "turn_limit": {
            "type": "integer",
            "description": ("Maximum number of actions in an episode."),
        },
        "episode": {"type": ["integer", "null"], "description": "rftweb's number of the episode."},
        "done": {"type": "boolean"},
    },
    "required": ["episode_id", "step_count"],
}


def describe_metadata(environment: Environment) -> dict:
    return {
        "name": environment.name,
        "description": environment.description or environment.title or environment.name,
        "readme_content": None,
        "version": environment.version,
        "author": environment.created_by.username if environment.created_by else None,
        "documentation_url": None,
    }


def describe_schemas(environment: Environment) -> dict:
    return {
        "action": action_schema(environment.action_schema),
        "observation": OBSERVATION,
        "state": STATE,
        "reset_observation": OBSERVATION,
    }


def action_schema(schema: dict) -> dict:
    """Return the schema as the schema of an object."""
    if schema.get("type") == "object":
        return schema
    return {
        "type": "object",
        "properties": {ACTION: schema, "metadata": METADATA},
        "required": [ACTION],
        "additionalProperties": False,
    }


def text_of_action(schema: dict, action: dict) -> str:
    """Return the policy text that means this action, in an environment of this schema."""
    if field := only_text(action_schema(schema)):
        return action.get(field, "")
    fields = {name: value for name, value in action.items() if name != "metadata"}
    return json.dumps(
        fields if schema.get("type") == "object" else fields[ACTION], ensure_ascii=False
    )


def wrong_in(schema: dict, action: dict) -> list[dict]:
    """Return the action's problems in OpenEnv's form, {type, loc, msg}; empty if it is valid."""
    served = action_schema(schema)
    allows_metadata = "metadata" in served.get("properties", {})
    checked = (
        action
        if allows_metadata
        else {name: value for name, value in action.items() if name != "metadata"}
    )
    try:
        return [_describe_error(error) for error in errors_in(served, checked)]
    except BadSchema as why:
        return [
            {
                "type": "schema",
                "loc": [],
                "msg": f"the environment's action schema cannot be applied: {why}"[:300],
            }
        ]


def _describe_error(error: ValidationError) -> dict:
    return {"type": error.validator, "loc": list(error.absolute_path), "msg": error.message[:300]}


def convert_step(step: Step, done: bool | None = None, **metadata: Any) -> dict:
    """Return a step in OpenEnv's form; values for programs are given twice, as in OpenEnv."""
    observation = (
        {"text": step.observation}
        if isinstance(step.observation, str)
        else {"messages": step.observation}
    )
    more = {**step.info, **metadata}
    document = {
        "observation": {**observation, "metadata": more},
        "reward": step.reward,
        "done": step.done if done is None else done,
    }
    return {**document, "metadata": more} if more else document


def state(episode_id: str | None = None, step_count: int = 0, **more: Any) -> dict:
    return {"episode_id": episode_id, "step_count": step_count, **more}
