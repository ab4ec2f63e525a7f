"""Build the OpenAPI document of one environment's server, for OpenEnv's clients and validator."""

from apps.environments.models import Environment
from apps.environments.openenv import wire

VERSION = "1.0.0"  # of OpenEnv's HTTP interface
TOKEN = "A token with the scope `env:play:<name>`."


def describe_openenv(environment: Environment, address: str) -> dict:
    """Return the document; `address` is the address of this environment's server."""
    schemas = wire.describe_schemas(environment)
    observation = _object(
        observation=schemas["observation"],
        reward={"type": ["number", "null"]},
        done={"type": "boolean"},
    )
    reset = _object(
        seed={"type": "integer", "minimum": 0}, episode_id={"type": "string", "maxLength": 255}
    )
    step = {**_object(action=schemas["action"]), "required": ["action"]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": environment.name,
            "description": environment.description,
            "version": VERSION,
        },
        "servers": [{"url": address}],
        "security": [{"bearer": []}, {"basic": []}],
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": TOKEN},
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": f"{TOKEN} As the password; the user may be any.",
                },
            }
        },
        "paths": {
            "/health": {"get": _operation("Health check", {"type": "object"}) | {"security": []}},
            "/metadata": {"get": _operation("Get environment metadata", {"type": "object"})},
            "/schema": {"get": _operation("Get all JSON schemas", {"type": "object"})},
            "/state": {"get": _operation("Get current environment state", schemas["state"])},
            "/reset": {"post": _operation("Reset the environment", observation, reset)},
            "/step": {
                "post": _operation("Execute an action in the environment", observation, step)
            },
            "/mcp": {
                "post": _operation(
                    "JSON-RPC: the tools begin and act", {"type": "object"}, {"type": "object"}
                )
            },
        },
    }


def _object(**properties: dict) -> dict:
    return {"type": "object", "properties": properties}


def _operation(summary: str, answer: dict, body: dict | None = None) -> dict:
    operation = {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": _json(answer)}},
    }
    return operation if body is None else {**operation, "requestBody": {"content": _json(body)}}


def _json(schema: dict) -> dict:
    return {"application/json": {"schema": schema}}
