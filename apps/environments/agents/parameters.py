"""Parse the parameters of a call.

A parameter is applied, or refused by name, or ignored. Ignored are only a few that frameworks send
by default; a header of the answer lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apps.environments.action_sampling import BEGIN_OF_CALL, NO_WISHES, ActionSampling
from apps.environments.agents import tools
from apps.environments.agents.conversation import ChatMessage, parse_messages
from apps.environments.agents.refusals import Refused, refuse_field, unsupported
from apps.runs.models import Run
from apps.tasksets.pictures import EncodedPicture

# Parameters of the request that do not affect the answer.
IGNORED = frozenset(
    {
        "user",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "store",
    }
)
READ = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "tools",
        "tool_choice",
        "n",
        "stop",
        "seed",
        "logprobs",
        "parallel_tool_calls",
        "top_p",
    }
)
BIASED = "anything else would change the distribution that the run trains on"
NO_EFFORT = "is not supported; leave it out"
USE_TOOLS = "is not supported: use tools and tool_choice"
# Parameters accepted only with a value that changes nothing; others are refused with the reason.
ONLY: dict[str, tuple[tuple, str]] = {
    "presence_penalty": ((0,), f"must be 0: {BIASED}"),
    "frequency_penalty": ((0,), f"must be 0: {BIASED}"),
    "logit_bias": (({},), f"must be empty: {BIASED}"),
    "top_logprobs": (
        (0,),
        ("must be 0 or left out: engines report only the logprob of the sampled token"),
    ),
    "response_format": (
        ({"type": "text"},),
        (
            'must be {"type": "text"} or left out: constrained decoding would change the '
            "distribution that the run trains on. Ask for JSON in a message, or offer a tool with "
            "that schema and require it by tool_choice"
        ),
    ),
    "modalities": ((["text"],), 'must be ["text"]'),
    "reasoning_effort": ((), NO_EFFORT),
    "verbosity": ((), NO_EFFORT),
    "functions": (([],), USE_TOOLS),
    "function_call": (("none",), USE_TOOLS),
    "prediction": ((), "is not supported; leave it out"),
    "web_search_options": ((), "is not supported: this policy cannot search"),
    "audio": ((), "is not supported: this policy replies in text"),
}


READ_OF_TEXT = frozenset(
    {
        "model",
        "prompt",
        "stream",
        "stream_options",
        "temperature",
        "max_tokens",
        "n",
        "stop",
        "seed",
        "top_p",
    }
)
NEUTRAL = ("presence_penalty", "frequency_penalty", "logit_bias")
ONLY_OF_TEXT = {name: ONLY[name] for name in NEUTRAL} | {
    "logprobs": (
        (),
        "is not supported here; /v1/chat/completions reports the logprobs of sampled tokens",
    ),
    "echo": ((False,), "must be false: you already have the prompt"),
    "best_of": ((1,), "must be 1: every reply is kept and trained on with its reward"),
    "suffix": (("",), "is not supported: the policy generates from left to right"),
}
HOTTEST = 2.0  # the highest temperature that OpenAI's API takes
MAX_CHOICES = 128
MAX_STOPS = 4
MAX_STOP_LENGTH = 200
MAX_INTEGER = 2**53


@dataclass(frozen=True)
class ChatCall:
    """A parsed call.

    - `tools`: given if the policy may call them.
    - `with_usage`: a stream ends with token counts.
    - `choices`: the number of answers, each in an episode of its own.
    - `pictures`: those in the messages, by name.
    - `unapplied`: the parameters that the answer ignores.
    """

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict, ...]
    stream: bool
    with_usage: bool
    choices: int = 1
    wishes: ActionSampling = NO_WISHES
    pictures: Mapping[str, EncodedPicture] = field(default_factory=dict)
    unapplied: tuple[str, ...] = ()


def read_chat_call(body: object, run: Run) -> ChatCall:
    """Parse a chat completion call for this run. Raises Refused with the field."""
    fields = _fields(body, READ, ONLY)
    offered = tools.check_tools(fields.get("tools"), run.policy.folder)
    choice = fields.get("tool_choice", "auto")
    prefix = _forced_prefix(choice, offered)
    offered = [] if choice == "none" else offered
    wishes = replace(
        _wishes(fields, run),
        one_call=not _flag(fields, "parallel_tool_calls", True) and bool(offered),
        prefix=prefix,
    )
    pictures: dict[str, EncodedPicture] = {}
    readable_pictures = pictures if run.policy.sees_pictures else None
    return ChatCall(
        model=_model(fields, run),
        messages=parse_messages(fields.get("messages"), readable_pictures),
        tools=tuple(offered),
        stream=_flag(fields, "stream"),
        with_usage=_with_usage(fields),
        choices=_whole_number(fields, "n", 1, 1, MAX_CHOICES),
        wishes=wishes,
        pictures=pictures,
        unapplied=_unapplied(fields, run),
    )


def read_text(body: object, run: Run) -> ChatCall:
    """Parse a text completion call, whose text the policy continues unchanged.

    The text's tokens are the prompt. Raises Refused with the field.
    """
    fields = _fields(body, READ_OF_TEXT, ONLY_OF_TEXT)
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        [prompt] = prompt
    if not isinstance(prompt, str) or not prompt:
        raise refuse_field(
            "prompt", "must be one text, not empty; for several, send several requests"
        )
    wishes = replace(_wishes(fields, run), raw=True)
    return ChatCall(
        model=_model(fields, run),
        messages=(ChatMessage("user", prompt),),
        tools=(),
        stream=_flag(fields, "stream"),
        with_usage=_with_usage(fields),
        choices=_whole_number(fields, "n", 1, 1, MAX_CHOICES),
        wishes=wishes,
        unapplied=_unapplied(fields, run),
    )


def _fields(body: object, read_here: frozenset[str], only: dict[str, tuple[tuple, str]]) -> dict:
    """Return the non-null fields of the body, all of which are supported. Raises Refused."""
    if not isinstance(body, dict):
        raise Refused(400, "invalid_value", "The body must be a JSON object.")
    fields = {name: value for name, value in body.items() if value is not None}
    for name in fields:
        if name not in read_here and name not in IGNORED:
            _require_honoured(name, fields[name], only)
    return fields


def _require_honoured(name: str, value: object, only: dict[str, tuple[tuple, str]]) -> None:
    if name not in only:
        raise unsupported(name[:100], "is not a known field; leave it out")
    allowed, why = only[name]
    if not any(
        value == option and isinstance(value, bool) == isinstance(option, bool)
        for option in allowed
    ):
        raise unsupported(name, why)


def _wishes(body: dict, run: Run) -> ActionSampling:
    """Parse what ends an answer, and its seed."""
    sampling = run.settings.sampling
    names = ("max_tokens", "max_completion_tokens")
    token_limit = min(
        _whole_number(body, name, sampling.max_tokens, 1, MAX_INTEGER) for name in names
    )
    seed = _whole_number(body, "seed", 0, 0, MAX_INTEGER) if "seed" in body else None
    wished = token_limit if token_limit < sampling.max_tokens else None
    return ActionSampling(wished, _stops(body), seed, _flag(body, "logprobs"))


def _unapplied(body: dict, run: Run) -> tuple[str, ...]:
    """Return which of temperature and top_p differ from the run's, which apply to every answer.

    The trainer computes logprobs at the run's temperature over all tokens, so an answer that was
    sampled differently would bias the ratio that the run learns from. The two are not refused,
    because many frameworks send both by default.
    """
    of_run = {"temperature": run.settings.sampling.temperature, "top_p": 1}
    highest = {"temperature": max(HOTTEST, of_run["temperature"]), "top_p": 1}
    for name, limit in highest.items():
        value = body.get(name, limit)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= limit:
            raise refuse_field(name, f"must be a number from 0 to {limit:g}")
    return tuple(name for name, value in of_run.items() if body.get(name, value) != value)


def _whole_number(body: dict, name: str, usual: int, minimum: int, maximum: int) -> int:
    value = body.get(name, usual)
    if type(value) is not int or not minimum <= value <= maximum:
        raise refuse_field(name, f"must be a whole number from {minimum} to {maximum}")
    return value


def _stops(body: dict) -> tuple[str, ...]:
    stops = [body["stop"]] if isinstance(body.get("stop"), str) else body.get("stop", [])
    texts = isinstance(stops, list) and all(
        isinstance(stop, str) and 0 < len(stop) <= MAX_STOP_LENGTH for stop in stops
    )
    if not texts or len(stops) > MAX_STOPS:
        raise refuse_field(
            "stop",
            f"must be a text of 1 to {MAX_STOP_LENGTH} characters, or a list of at most "
            f"{MAX_STOPS}",
        )
    return tuple(stops)


def _model(body: dict, run: Run) -> str:
    model_names = (run.policy.slug, run.slug)
    model = body.get("model")
    if not isinstance(model, str):
        raise refuse_field("model", f"must be {run.policy.slug!r}")
    if model not in model_names:
        raise Refused(
            404,
            "model_not_found",
            f"There is no model {model[:100]!r}; this key's model is {run.policy.slug!r}.",
            "model",
        )
    return model


def _flag(body: dict, name: str, usual: bool = False, inside: str = "") -> bool:
    """Return the flag of this name. Raises Refused; `inside` is the path of `body`."""
    value = body.get(name, usual)
    if not isinstance(value, bool):
        raise refuse_field(f"{inside}{name}", "must be true or false")
    return value


def _with_usage(body: dict) -> bool:
    options = body.get("stream_options", {})
    if not isinstance(options, dict) or set(options) - {"include_usage", "include_obfuscation"}:
        raise refuse_field("stream_options", "can contain only include_usage")
    if options and not body.get("stream"):
        raise refuse_field("stream_options", "requires stream: true")
    if options.get("include_obfuscation"):
        raise unsupported("stream_options.include_obfuscation", "is not supported")
    return _flag(options, "include_usage", inside="stream_options.")


def _forced_prefix(choice: object, offered: list[dict]) -> str:
    """Return the beginning of the tool call that `tool_choice` requires. Raises Refused."""
    if choice in ("auto", "none"):
        return ""
    names = [tool["function"]["name"] for tool in offered]
    if choice == "required":
        tool_name = names[0] if len(names) == 1 else ""
    elif isinstance(choice, dict) and choice.get("type") == "function":
        function = choice.get("function")
        tool_name = function.get("name") if isinstance(function, dict) else None
    else:
        kinds = 'auto, none, required or {"type": "function", "function": {"name": …}}'
        raise unsupported("tool_choice", f"must be {kinds}")
    if not names or tool_name not in (*names, ""):
        raise refuse_field("tool_choice", "must name one of the offered tools")
    begin = f'{BEGIN_OF_CALL}\n{{"name": "'
    return f'{begin}{tool_name}", "arguments":' if tool_name else begin
