"""What a call asks for, and whether it can be honoured: what cannot is refused by name, never passed over."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apps.environments.agents import tools
from apps.environments.agents.conversation import Said, spoken
from apps.environments.agents.refusals import Refused, unsupported, wrong
from apps.environments.wishes import NO_WISHES, Wishes
from apps.runs.models import Run
from apps.tasksets.pictures import Encoded

# About the request, not the answer.
UNHEARD = frozenset({
    "user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
})  # fmt: skip
READ = frozenset({
    "model", "messages", "stream", "stream_options", "temperature", "max_tokens", "max_completion_tokens", "tools", "tool_choice",
    "n", "stop", "seed", "logprobs", "parallel_tool_calls",
})  # fmt: skip
# What may be said of these changes nothing; anything else would.
ONLY: dict[str, tuple[tuple, str]] = {
    "top_p": ((1,), "must be 1: anything else would bias what the run learns"),
    "presence_penalty": ((0,), "must be 0: anything else would bias what the run learns"),
    "frequency_penalty": ((0,), "must be 0: anything else would bias what the run learns"),
    "logit_bias": (({},), "must be empty: anything else would bias what the run learns"),
    "top_logprobs": ((0,), "must be 0 or left out: the engines tell the logprob of the token that was chosen, and of no other"),
    "response_format": (
        ({"type": "text"},),
        'must be {"type": "text"} or left out: nothing forces the policy to write JSON. '
        "Ask for it in a message, and check the answer",
    ),
    "store": ((False,), "is not supported: every call is recorded as a turn anyway"),
    "modalities": ((["text"],), 'must be ["text"]'),
    "service_tier": (("auto", "default"), "is not supported"),
}


READ_OF_TEXT = frozenset({
    "model", "prompt", "stream", "stream_options", "temperature", "max_tokens", "n", "stop", "seed",
})  # fmt: skip
ONLY_OF_TEXT = {name: ONLY[name] for name in ("top_p", "presence_penalty", "frequency_penalty", "logit_bias")} | {
    "logprobs": ((), "is not supported here; /v1/chat/completions tells those of the tokens that were chosen"),
    "echo": ((False,), "must be false: the prompt is yours already"),
    "best_of": ((1,), "must be 1: every answer is kept, and trained on with what it earned"),
    "suffix": (("",), "is not supported: the policy writes from left to right"),
}
MOST_CHOICES, MOST_STOPS, LONGEST_STOP, LARGEST = 128, 4, 200, 2**53


@dataclass(frozen=True)
class Asked:
    """One call. `tools` are given when the policy may call them; `with_usage`: a stream ends with the count of tokens.

    `choices`: how many answers, each in an episode of its own. `pictures`: those that the messages show, by name.
    """

    model: str
    messages: tuple[Said, ...]
    tools: tuple[dict, ...]
    stream: bool
    with_usage: bool
    choices: int = 1
    wishes: Wishes = NO_WISHES
    pictures: Mapping[str, Encoded] = field(default_factory=dict)


def read(body: object, run: Run) -> Asked:
    """The call in this document, for this run. Raises Refused with the field."""
    said = _fields(body, READ, ONLY)
    offered = tools.checked(said.get("tools"), run.policy.folder)
    offered = [] if _declines(said) else offered
    one_call = not _flag(said, "parallel_tool_calls", True) and bool(offered)
    pictures: dict[str, Encoded] = {}
    return Asked(
        _model(said, run), spoken(said.get("messages"), pictures if run.policy.sees_pictures else None),
        tuple(offered), _flag(said, "stream"), _with_usage(said), _whole(said, "n", 1, 1, MOST_CHOICES),
        replace(_wishes(said, run), one_call=one_call), pictures,
    )  # fmt: skip


def read_text(body: object, run: Run) -> Asked:
    """The same of a text that the policy goes on from, as it is: its tokens are the prompt's. Raises Refused with the field."""
    said = _fields(body, READ_OF_TEXT, ONLY_OF_TEXT)
    prompt = said.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        [prompt] = prompt
    if not isinstance(prompt, str) or not prompt:
        raise wrong("prompt", "must be one text, not empty; for several make several calls")
    wishes = replace(_wishes(said, run), raw=True)
    choices = _whole(said, "n", 1, 1, MOST_CHOICES)
    return Asked(_model(said, run), (Said("user", prompt),), (), _flag(said, "stream"), _with_usage(said), choices, wishes)


def _fields(body: object, read_here: frozenset[str], only: dict[str, tuple[tuple, str]]) -> dict:
    """What is said in the body, all of which can be honoured. Raises Refused."""
    if not isinstance(body, dict):
        raise Refused(400, "invalid_value", "The body must be a JSON object.")
    said = {name: value for name, value in body.items() if value is not None}
    for name in said:
        if name not in read_here and name not in UNHEARD:
            _require_honoured(name, said[name], only)
    return said


def _require_honoured(name: str, value: object, only: dict[str, tuple[tuple, str]]) -> None:
    if name not in only:
        raise Refused(422, "unsupported_parameter", f"{name[:100]}: is not known here; leave it out", name[:100])
    allowed, why = only[name]
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        raise unsupported(name, why)


def _wishes(said: dict, run: Run) -> Wishes:
    """The run's own rules of sampling hold: with others, its logprobs would not be those of the policy. What ends an answer may be
    said, and what its draws begin with.
    """
    sampling = run.settings.sampling
    temperature = said.get("temperature", sampling.temperature)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or temperature != sampling.temperature:
        why = "or left out: another would bias the ratio that the run learns from"
        raise unsupported("temperature", f"must be {sampling.temperature:g}, the run's, {why}")
    names = ("max_tokens", "max_completion_tokens")
    most = min(_whole(said, name, sampling.max_tokens, 1, LARGEST) for name in names)
    seed = _whole(said, "seed", 0, 0, LARGEST) if "seed" in said else None
    wished = most if most < sampling.max_tokens else None
    return Wishes(wished, _stops(said), seed, _flag(said, "logprobs"))


def _whole(said: dict, name: str, usual: int, least: int, most: int) -> int:
    value = said.get(name, usual)
    if type(value) is not int or not least <= value <= most:
        raise wrong(name, f"must be a whole number from {least} to {most}")
    return value


def _stops(said: dict) -> tuple[str, ...]:
    stops = [said["stop"]] if isinstance(said.get("stop"), str) else said.get("stop", [])
    texts = isinstance(stops, list) and all(isinstance(stop, str) and 0 < len(stop) <= LONGEST_STOP for stop in stops)
    if not texts or len(stops) > MOST_STOPS:
        raise wrong("stop", f"must be a text of 1 to {LONGEST_STOP} characters, or a list of at most {MOST_STOPS}")
    return tuple(stops)


def _model(said: dict, run: Run) -> str:
    known = (run.policy.slug, run.slug)
    model = said.get("model")
    if not isinstance(model, str):
        raise wrong("model", f"must be {run.policy.slug!r}")
    if model not in known:
        raise Refused(404, "model_not_found", f"The model {model[:100]!r} is not here; this key's is {run.policy.slug!r}.", "model")
    return model


def _flag(said: dict, name: str, usual: bool = False) -> bool:
    value = said.get(name, usual)
    if not isinstance(value, bool):
        raise wrong(name, "must be true or false")
    return value


def _with_usage(said: dict) -> bool:
    options = said.get("stream_options", {})
    if not isinstance(options, dict) or set(options) - {"include_usage", "include_obfuscation"}:
        raise wrong("stream_options", "may have include_usage")
    if options and not said.get("stream"):
        raise wrong("stream_options", "goes with stream: true alone")
    if options.get("include_obfuscation"):
        raise unsupported("stream_options.include_obfuscation", "is not supported")
    return _flag(options, "include_usage")


def _declines(said: dict) -> bool:
    """Whether no tool may be called now."""
    choice = said.get("tool_choice", "auto")
    if choice not in ("auto", "none"):
        raise unsupported("tool_choice", "must be auto or none: nothing forces what the policy says")
    return choice == "none"
