"""Tools that an agent offers: support by the chat template, and parsing of the policy's calls."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from apps.accounts import strict_json
from apps.environments.agents.refusals import refuse_field, unsupported
from apps.environments.json_schemas import BadSchema, errors_in, require_schema
from apps.environments.observations import MAX_OBSERVATION_LENGTH

MAX_TOOLS = 128
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
MAX_TOOL_FILE_BYTES = 16 * 2**20
NO_TOOLS = (
    "the chat template of this policy does not support tools in the <tool_call> form; describe "
    "them in a message, and read calls from the reply's text"
)


def check_tools(tools: object, folder: str) -> list[dict]:
    """Return the tools in the chat template's form; empty without any. Raises Refused."""
    if tools is None or tools == []:
        return []
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        raise refuse_field("tools", f"must be a list of at most {MAX_TOOLS}")
    for place, tool in enumerate(tools):
        _require_function(f"tools[{place}]", tool)
    if len(json.dumps(tools)) > MAX_OBSERVATION_LENGTH:
        raise refuse_field("tools", f"have more than {MAX_OBSERVATION_LENGTH} characters")
    if not shows_tools(folder):
        raise unsupported("tools", NO_TOOLS)
    return tools


def _require_function(path: str, tool: object) -> None:
    if (
        not isinstance(tool, dict)
        or tool.get("type") != "function"
        or not isinstance(tool.get("function"), dict)
    ):
        raise refuse_field(path, 'must be {"type": "function", "function": {…}}')
    if not isinstance(tool["function"].get("name"), str) or not NAME.fullmatch(
        tool["function"]["name"]
    ):
        raise refuse_field(f"{path}.function.name", "must be letters, digits, - and _; at most 64")
    if tool["function"].get("strict"):
        _require_checkable(f"{path}.function.parameters", tool["function"].get("parameters", {}))


def _require_checkable(path: str, schema: object) -> None:
    """Raise Refused for a `strict` tool whose schema cannot be checked.

    `strict` promises arguments that match the schema: other arguments make no call.
    """
    try:
        require_schema(schema)
    except BadSchema as error:
        raise refuse_field(path, str(error)) from None


def shows_tools(folder: str) -> bool:
    """Tell whether the policy's chat template supports tools, in the call form parsed here."""
    template_paths = [
        path
        for name in ("chat_template.jinja", "tokenizer_config.json")
        if (path := Path(folder) / name).is_file()
    ]
    return any(_template_shows_tools(str(path), path.stat().st_mtime_ns) for path in template_paths)


@lru_cache(maxsize=16)
def _template_shows_tools(path: str, _modified: int) -> bool:
    if Path(path).stat().st_size > MAX_TOOL_FILE_BYTES:
        return False
    template = Path(path).read_text(encoding="utf-8")
    if path.endswith(".json"):
        template = str(strict_json.decode_json(template, any_text=True).get("chat_template") or "")
    return "tools" in template and "<tool_call>" in template


def split_tool_calls(text: str, offered: Sequence[dict] = ()) -> tuple[str, list[dict]]:
    """Split a text into the part beside the calls and the calls: [{name, arguments}].

    If a call cannot be parsed, or its arguments do not match the schema of a strict tool, the text
    has no calls.
    """
    functions = [tool["function"] for tool in offered]
    strict = {
        function["name"]: function.get("parameters", {})
        for function in functions
        if function.get("strict")
    }
    written = CALL.findall(text)
    tool_calls = [
        call for inside in written if (call := _matching_call(_call(inside), strict)) is not None
    ]
    if not tool_calls or len(tool_calls) < len(written):
        return text, []
    return CALL.sub("", text).strip(), tool_calls


def _matching_call(call: dict | None, strict: dict[str, dict]) -> dict | None:
    if call is None or call["name"] not in strict:
        return call
    try:
        is_fitting = next(errors_in(strict[call["name"]], call["arguments"]), None) is None
    except BadSchema:  # a broken reference, or too many checks: no call is known to be valid
        is_fitting = False
    return call if is_fitting else None


def _call(inside: str) -> dict | None:
    try:
        call = strict_json.decode_json(inside.strip())
    except strict_json.NotStrictJson:
        return None
    is_call = (
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("arguments", {}), dict)
    )
    return {"name": call["name"], "arguments": call.get("arguments", {})} if is_call else None
