"""Parse a line: the conversation's turns, and its tokens joined.

Errors name the place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import fsum

from pydantic import ValidationError

from apps.accounts import strict_json
from apps.environments.errors import CannotPlay
from apps.environments.observations import Observation, check_observation
from apps.environments.traces import lines
from apps.environments.traces.wording import ours
from apps.rollouts.payload import DamagedPayload, Tokens
from apps.tasksets.messages import NONE_KNOWN, BadContent, pictures_in
from apps.tasksets.pictures import EncodedPicture

MAX_LINE_BYTES = 64 << 20  # bytes


class BadLine(ValueError):
    """Raised for a line that cannot be imported.

    `where` is the dotted field, "" for the line as a whole.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)


@dataclass(frozen=True)
class Turn:
    """An observation and the action on it; `first` and `tokens` are positions in the completion.

    They are set when the policy `acted`.
    """

    observation: Observation
    done: bool = False
    info: dict = field(default_factory=dict)
    tools: list = field(default_factory=list)
    acted: bool = True
    action: str = ""
    is_cut: bool = False
    first: int = 0
    tokens: int = 0
    reward: float | None = None
    late_reward: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Line:
    """One episode of a file; `tokens` is None if the episode failed.

    `prompt` holds the task's own messages, `pictures` all pictures shown.
    """

    episode: lines.Episode
    trace: lines.Trace
    prompt: list[dict]
    turns: list[Turn]
    tokens: Tokens | None
    pictures: dict[str, EncodedPicture]

    @property
    def own_data(self) -> lines.OwnData | None:
        return self.trace.info.rftweb

    @property
    def answer(self) -> dict:
        """Return the data that scorers judge by, as an object."""
        answer = self.episode.task.data.answer
        return answer if isinstance(answer, dict) else {} if answer is None else {"value": answer}

    @property
    def group(self) -> str:
        return self.episode.group.id if self.episode.group else self.episode.id

    @property
    def state(self) -> str:
        return self.own_data.state if self.own_data else "done" if self.tokens else "failed"

    @property
    def reason(self) -> str:
        """Return why the episode ended."""
        errors = [error.message for error in self.episode.errors]
        return (self.trace.stop_condition or next(iter(errors), "") or "not said")[:300]

    @property
    def opened_at(self) -> datetime:
        return datetime.fromtimestamp(self.trace.timing.start, UTC)

    @property
    def closed_at(self) -> datetime:
        return datetime.fromtimestamp(
            max(self.trace.timing.agent.end, self.trace.timing.start), UTC
        )


def read_trace_line(raw: bytes) -> Line:
    """Parse a line. Raises BadLine."""
    if len(raw) > MAX_LINE_BYTES:
        raise BadLine("", f"has more than {MAX_LINE_BYTES} bytes")
    try:
        episode = lines.Episode.model_validate(strict_json.decode_json(raw))
    except strict_json.NotStrictJson as why:
        raise BadLine("", f"is not strict JSON: {why}") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise BadLine(".".join(map(str, first["loc"])), first["msg"]) from None
    place, trace = _trained_trace(episode)
    _require_one_conversation(trace, f"traces.{place}.nodes")
    failed = (
        not trace.ok
        if trace.info.rftweb is None
        else not any(node.token_ids for node in trace.nodes)
    )
    pictures: dict[str, EncodedPicture] = {}
    prompt = _prompt(episode.task.data, pictures)
    messages = [
        _read_message(node.message, f"traces.{place}.nodes.{number}.message", pictures)
        for number, node in enumerate(trace.nodes)
    ]
    tokens, spans = _tokens(trace, f"traces.{place}.nodes")
    if not failed:
        tokens = _with_pictures(tokens, trace, messages, place)
    if not failed and not any(tokens.action_mask):
        raise BadLine(
            f"traces.{place}.nodes",
            "contain no token that the policy sampled, so there is nothing to train on",
        )
    turns = list(_turns(trace, messages, spans, place, pictures))
    return Line(episode, trace, prompt, turns, None if failed else tokens, pictures)


def _trained_trace(episode: lines.Episode) -> tuple[int, lines.Trace]:
    trained = [
        (place, trace) for place, trace in enumerate(episode.traces) if trace.agent.trainable
    ]
    if len(trained) != 1:
        raise BadLine(
            "traces",
            f"contains {len(trained)} trained agents; an episode here is the conversation of one",
        )
    return trained[0]


def _prompt(data: lines.Data, pictures: dict[str, EncodedPicture]) -> list[dict]:
    if data.prompt is None or isinstance(data.prompt, str):
        prompt = [{"role": "user", "content": data.prompt or ""}]
    else:
        prompt = [
            _read_message(message, f"task.data.prompt.{place}", pictures)
            for place, message in enumerate(data.prompt)
        ]
    return (
        [{"role": "system", "content": data.system_prompt}, *prompt]
        if data.system_prompt
        else prompt
    )


def _read_message(message: lines.Message, where: str, pictures: dict[str, EncodedPicture]) -> dict:
    try:
        return ours(message.model_dump(), pictures)
    except BadContent as why:
        raise BadLine(f"{where}.content{why.where}", why.why) from None


def _with_pictures(tokens: Tokens, trace: lines.Trace, messages: list[dict], place: int) -> Tokens:
    """Return the tokens with the position of each picture.

    Only messages up to the last one that became tokens count.
    """
    message_count = max(
        (number for number, node in enumerate(trace.nodes, start=1) if node.token_ids), default=0
    )
    picture_names = [
        name for message in messages[:message_count] for name in pictures_in(message["content"])
    ]
    if trace.info.rftweb is None:
        if picture_names:
            raise BadLine(
                f"traces.{place}.info.rftweb",
                "is required if there are pictures, because nothing else identifies their tokens",
            )
        return tokens
    where = f"traces.{place}.info.rftweb.pictures"
    spans = trace.info.rftweb.pictures
    if [span.picture for span in spans] != picture_names:
        raise BadLine(
            where, f"must name the {len(picture_names)} pictures of its messages in order"
        )
    ids = [*tokens.prompt_ids, *tokens.completion_ids]
    mask = [0] * len(tokens.prompt_ids) + [*tokens.action_mask]
    past = 0
    for number, span in enumerate(spans):
        is_one_token = len(set(ids[span.first : span.past])) == 1
        if span.first < past or not is_one_token or any(mask[span.first : span.past]):
            raise BadLine(
                f"{where}.{number}",
                "must be a range of one token, not sampled, after the picture before",
            )
        past = span.past
    try:
        return replace(
            tokens, pictures=tuple((span.picture, span.first, span.past) for span in spans)
        )
    except DamagedPayload as why:
        raise BadLine(where, str(why)) from None


def _require_one_conversation(trace: lines.Trace, where: str) -> None:
    for number, node in enumerate(trace.nodes):
        if node.parent != (number - 1 if number else None):
            raise BadLine(
                f"{where}.{number}.parent",
                "is not the node before; branching conversations are not supported",
            )
        if node.sampled and node.message.role != "assistant":
            raise BadLine(
                f"{where}.{number}.message.role",
                ("must be assistant for nodes that the model sampled"),
            )
        if len(node.mask) != len(node.token_ids):
            raise BadLine(
                f"{where}.{number}.mask",
                f"has {len(node.mask)} entries for {len(node.token_ids)} token_ids",
            )
        if len(node.logprobs) != sum(node.mask):
            raise BadLine(
                f"{where}.{number}.logprobs",
                f"has {len(node.logprobs)} entries for {sum(node.mask)} sampled tokens",
            )
        if any(not 0 <= token < 2**31 for token in node.token_ids):
            raise BadLine(f"{where}.{number}.token_ids", "contains a number that is not a token ID")
        if any(not -1e30 < logprob <= 0 for logprob in node.logprobs):
            raise BadLine(
                f"{where}.{number}.logprobs",
                "contains a number above 0 or one that is too low to store",
            )
    if trace.nodes and trace.nodes[0].sampled:
        raise BadLine(f"{where}.0.sampled", "nothing comes before the sampled tokens")


def _tokens(trace: lines.Trace, where: str) -> tuple[Tokens, list[tuple[int, int]]]:
    """Return all nodes' tokens joined, and the position of each node's tokens in the completion."""
    prompt: list[int] = []
    completion: list[tuple[int, float, int]] = []
    spans = []
    has_begun = False
    for node in trace.nodes:
        scaffold = (
            node.mask.index(True)
            if node.sampled and True in node.mask and trace.info.rftweb is None
            else 0
        )
        has_begun = has_begun or (node.sampled and bool(node.token_ids))
        logprobs = iter(node.logprobs)
        rows = [
            (token, next(logprobs) if is_sampled else 0.0, int(is_sampled))
            for token, is_sampled in zip(node.token_ids, node.mask, strict=True)
        ]
        # Messages before the first answer belong to the prompt.
        if not completion and has_begun and scaffold:
            prompt += [token for token, _, _ in rows[:scaffold]]
            rows = rows[scaffold:]
            scaffold = 0
        if has_begun:
            spans.append((len(completion) + scaffold, len(rows) - scaffold))
            completion += rows
        else:
            spans.append((0, 0))
            prompt += node.token_ids
    tokens = Tokens(
        tuple(prompt),
        tuple(token for token, _, _ in completion),
        tuple(logprob for _, logprob, _ in completion),
        tuple(is_sampled for _, _, is_sampled in completion),
        ((0, 0),),
    )
    return tokens, spans


def _turns(
    trace: lines.Trace,
    messages: list[dict],
    spans: list[tuple[int, int]],
    place: int,
    pictures: dict[str, EncodedPicture],
) -> Iterator[Turn]:
    cut = {call.node for call in trace.calls if call.finish_reason == "length"}
    actions = [
        {
            "action": node.message.content or "",
            "first": spans[number][0],
            "tokens": spans[number][1],
            "is_cut": number in cut,
        }
        for number, node in enumerate(trace.nodes)
        if node.sampled
    ]
    own_data = trace.info.rftweb
    if own_data is None:
        yield from _foreign_turns(trace, messages, actions, f"traces.{place}")
        return
    acted = sum(turn.acted for turn in own_data.turns)
    if acted != len(actions):
        raise BadLine(
            f"traces.{place}.info.rftweb.turns",
            f"has {acted} actions, but there are {len(actions)} sampled nodes",
        )
    following = iter(actions)
    for number, turn in enumerate(own_data.turns):
        observation = _check_observation(
            turn.observation, f"traces.{place}.info.rftweb.turns.{number}", pictures
        )
        yield Turn(
            **{
                **turn.model_dump(),
                "observation": observation,
                **(next(following) if turn.acted else {}),
            }
        )


def _foreign_turns(
    trace: lines.Trace, messages: list[dict], actions: list[dict], where: str
) -> Iterator[Turn]:
    """Yield the turns of a trace that is not ours.

    The messages between two answers are an observation, the first is the task itself, and the
    reward belongs to the last action.
    """
    rewards = [
        reward.score * reward.weight for reward in trace.rewards.values() if reward is not None
    ]
    observations: list[Observation] = []
    between: list[dict] = []
    for number, node in enumerate(trace.nodes):
        if node.sampled:
            observations.append(
                _check_observation(between, f"{where}.nodes.{number - 1}")
                if observations and between
                else ""
            )
            between = []
        else:
            between.append(messages[number])
    for number, action in enumerate(actions):
        is_last = number == len(actions) - 1
        yield Turn(
            observation=observations[number],
            reward=fsum(rewards) if is_last and rewards else None,
            **action,
        )


def _check_observation(
    value: object, where: str, pictures: Mapping[str, EncodedPicture] = NONE_KNOWN
) -> Observation:
    """Validate an observation; only pictures that the messages brought are allowed, by name."""
    try:
        return check_observation(value, pictures={}, decoded=pictures)
    except CannotPlay as why:
        raise BadLine(where, str(why)) from None
