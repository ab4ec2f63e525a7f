"""Write a run's episodes as lines, oldest first, in batches that keep memory constant."""

import json
import uuid
from collections.abc import Callable, Iterator

from django.db.models import Prefetch

from apps.accounts.redacting import Redactor
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import messages, opening
from apps.environments.traces.wording import convert_message
from apps.policies.fingerprint import tokenizer_fingerprint
from apps.rollouts.models import Rollout
from apps.rollouts.payload import Tokens
from apps.runs.models import Run
from apps.tasksets.models import Picture

EPISODES_AT_ONCE = 50
FORMAT = "0.4.0"  # version of the verifiers package's format
OURS = "rftweb"
MADE_HERE = uuid.UUID("5f0d6c1e-2f0b-4a52-9d43-6a1b1a3c9e10")  # the namespace of our ids
Pngs = Callable[[str], bytes]
WRITTEN = (Rollout.State.FINISHED, Rollout.State.FAILED)


def write_trace_lines(run: Run, redactor: Redactor | None = None) -> Iterator[bytes]:
    """Yield a line for each episode of the run whose rollout is written, its last attempt only."""
    tokenizer = tokenizer_fingerprint(run.policy)
    for episode in _episodes(run):
        line = _episode(run, episode, tokenizer)
        line = line if redactor is None else _redacted(line, redactor)
        yield json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _redacted(line: dict, redactor: Redactor) -> dict:
    """Remove personal data, and, if there was any, also the tokens, which spell the text."""
    before = redactor.counts.total()
    clean = redactor.all_of(line)
    if redactor.counts.total() == before:
        return line
    for trace in clean["traces"]:
        trace["nodes"] = [
            {**node, "token_ids": [], "mask": [], "logprobs": []} for node in trace["nodes"]
        ]
        trace["info"][OURS] |= {"versions": [], "pictures": []}
    return clean


def _pngs(project_id: int) -> Pngs:
    """Return a function that gives the project's picture files by name."""
    return lambda name: bytes(Picture.objects.get(project=project_id, sha256=name).png)


def _episodes(run: Run) -> Iterator[Episode]:
    episodes = Episode.objects.filter(run=run, rollout__state__in=WRITTEN, state__in=Episode.CLOSED)
    episodes = episodes.select_related("environment", "rollout__group__task", "rollout__payload")
    episodes = episodes.prefetch_related(Prefetch("seen", EpisodeTurn.objects.order_by("number")))
    last = 0
    while batch := list(
        episodes.filter(rollout__gt=last)
        .order_by("rollout", "-fence")
        .distinct("rollout")[:EPISODES_AT_ONCE]
    ):
        yield from batch
        last = batch[-1].required_rollout.pk


def _episode(run: Run, episode: Episode, tokenizer: str) -> dict:
    rollout = episode.required_rollout
    origin = episode.origin
    tokens = rollout.tokens_if_kept
    made_here = uuid.uuid5(MADE_HERE, f"{run.topic.name}/{episode.pk}").hex
    ok = episode.state == Episode.State.DONE and rollout.state == Rollout.State.FINISHED
    line = {
        "id": origin.get("id", made_here),
        "env": {"id": episode.environment.name, "name": episode.environment.title or None},
        "task": _task(rollout, _pngs(run.project_id)),
        "group": origin.get("group", {"id": f"{run.topic.name}/{rollout.group.draw_index}"}),
        "run": origin.get(
            "run",
            {
                "type": "train",
                "id": str(run.pk),
                "name": f"{run.project.slug}/{run.slug}",
                "work": {
                    "type": "train",
                    "step": rollout.group.opened_version,
                    "policy": _span(rollout),
                },
            },
        ),
        "ok": ok,
        "is_timeout": "took longer than" in episode.reason,
        "errors": [] if ok else [{"type": episode.state, "message": episode.reason}],
    }
    end = {"ok": ok, "errors": line["errors"]}
    trace = {
        "version": 1,
        "id": uuid.uuid5(MADE_HERE, line["id"]).hex,
        **_trace(run, episode, tokens, tokenizer),
        **end,
    }
    return {**line, "traces": [trace]}


def _span(rollout: Rollout) -> dict | None:
    return (
        None
        if rollout.first_version is None
        else {"start": rollout.first_version, "end": rollout.last_version}
    )


def _task(rollout: Rollout, png: Pngs) -> dict:
    task = rollout.group.task
    prompt = [
        convert_message(message, f"task_{place}", png) for place, message in enumerate(task.prompt)
    ]
    return {
        "type": "Task",
        "data": {
            "idx": task.index,
            "prompt": prompt,
            "answer": task.answer,
            "meta": task.meta,
            "taskset": task.taskset.slug,
        },
        "key": task.digest,
    }


def _trace(run: Run, episode: Episode, tokens: Tokens | None, tokenizer: str) -> dict:
    turns = list(episode.seen.all())
    plan = run.settings
    png = _pngs(run.project_id)
    nodes, calls = _conversation(episode, turns, tokens, png)
    turn_rewards = [turn.reward for turn in turns if turn.reward is not None]
    agent = {
        "name": "policy",
        "trainable": True,
        "config": {
            "model": run.policy.slug,
            "sampling": {
                "temperature": plan.sampling.temperature,
                "max_tokens": plan.sampling.max_tokens,
            },
            "max_turns": episode.turn_limit,
        },
    }
    assert episode.closed_at is not None  # only closed episodes are exported
    ended_at = episode.closed_at.timestamp()
    return {
        "verifiers": {"version": FORMAT},
        "task": _task(episode.required_rollout, png),
        "agent": agent,
        "tools": [],
        "nodes": nodes,
        "calls": [{**call, "model": run.policy.slug} for call in calls],
        "rewards": {
            episode.environment.name: {"score": sum(turn_rewards), "weight": 1.0}
            if turn_rewards
            else None
        },
        "info": {OURS: _own_data(episode, turns, tokens, tokenizer)},
        "is_completed": True,
        "stop_condition": episode.reason,
        "is_timeout": "took longer than" in episode.reason,
        "timing": {
            "start": episode.opened_at.timestamp(),
            "agent": {"start": episode.opened_at.timestamp(), "end": ended_at},
        },
    }


def _conversation(
    episode: Episode, turns: list[EpisodeTurn], tokens: Tokens | None, png: Pngs
) -> tuple[list[dict], list[dict]]:
    """Return every message with the tokens that it adds.

    The tokens of an observation are given with the last of its messages.
    """
    nodes: list[dict] = []
    calls: list[dict] = []
    written = 0  # completion tokens written so far
    for turn in turns:
        is_agent = episode.environment.kind == Environment.Kind.AGENT
        prompt = [] if is_agent else episode.required_rollout.group.task.prompt
        first = opening(prompt, turn.observation)
        new = first if turn.number == 0 else messages(turn.observation)
        spoken = turn.answered_at is not None
        added = (
            list(tokens.completion_ids[written : turn.first if spoken else None]) if tokens else []
        )
        if turn.number == 0 and tokens:
            added = [*tokens.prompt_ids, *added]
        for place, message in enumerate(new):
            ids = added if place == len(new) - 1 else []
            nodes.append(
                _node(
                    nodes,
                    episode,
                    convert_message(message, f"turn_{turn.number}_{place}", png),
                    ids,
                    [False] * len(ids),
                )
            )
        if spoken:
            assert turn.first is not None
            written = turn.first + turn.tokens
            nodes.append(_sampled(nodes, episode, turn, tokens))
            calls.append(
                {
                    "node": len(nodes) - 1,
                    "finish_reason": "length" if turn.is_cut else "stop",
                    "usage": {"prompt_tokens": turn.before or 0, "completion_tokens": turn.tokens},
                }
            )
    return nodes, calls


def _sampled(nodes: list[dict], episode: Episode, turn: EpisodeTurn, tokens: Tokens | None) -> dict:
    """Return the node of an action; tokens typed by a person are outside its mask."""
    ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []
    if tokens:
        assert turn.first is not None
        span = slice(turn.first, turn.first + turn.tokens)
        ids = list(tokens.completion_ids[span])
        mask = [bool(is_sampled) for is_sampled in tokens.action_mask[span]]
        aligned = zip(tokens.logprobs[span], mask, strict=True)
        logprobs = [logprob for logprob, is_sampled in aligned if is_sampled]
    message = {"role": "assistant", "content": turn.action}
    node = _node(nodes, episode, message, ids, mask)
    return {**node, "sampled": True, "logprobs": logprobs}


def _node(
    nodes: list[dict], episode: Episode, message: dict, ids: list[int], mask: list[bool]
) -> dict:
    parent = len(nodes) - 1 if nodes else None
    return {
        "parent": parent,
        "message": message,
        "sampled": False,
        "timestamp": episode.opened_at.timestamp(),
        "token_ids": ids,
        "mask": mask,
        "logprobs": [],
    }


def _own_data(
    episode: Episode, turns: list[EpisodeTurn], tokens: Tokens | None, tokenizer: str
) -> dict:
    """Return the data that the format has no field for and that our import needs."""
    rollout = episode.required_rollout
    segments = tokens.segments if tokens else ()
    pictures = tokens.pictures if tokens else ()
    document = {
        "tokenizer": tokenizer,
        "seed": episode.seed,
        "options": episode.options,
        "state": episode.state,
        "stop_reason": rollout.stop_reason,
        "sample": rollout.sample_index,
        "versions": episode.origin.get("versions", [list(segment) for segment in segments]),
        "pictures": [
            {"picture": name, "first": first, "past": past} for name, first, past in pictures
        ],
        "turns": [_turn(turn) for turn in turns],
    }
    if rollout.arrays_released_at:
        document["arrays_released_at"] = rollout.arrays_released_at.isoformat()
    return document


def _turn(turn: EpisodeTurn) -> dict:
    return {
        "observation": turn.observation,
        "done": turn.done,
        "info": turn.info,
        "tools": turn.tools,
        "reward": turn.reward,
        "late_reward": turn.late_reward,
        "reason": turn.reason,
        "acted": turn.answered_at is not None,
    }
