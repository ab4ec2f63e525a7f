"""Guesses sampled, judged and kept, some tasks at a time: what is written stays, and a check that broke off goes on there."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from apps.feedback.models import Guess
from apps.feedback.suspicions.guesses import MOST_SAID, Check, Tally, keep
from apps.policies.manifest import verify
from apps.policies.models import Policy
from apps.rewards.own_options import options_of
from apps.rewards.scorers import RolloutView, TaskView, find
from apps.rewards.scoring import Question
from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task
from apps.tasksets.selection import chance
from workers.answering import by_rule
from workers.engines.choose import build
from workers.engines.interface import Engine, EngineDied, Request, Sampling
from workers.explorer.speaker import Speaker
from workers.pictures import pngs_of

AT_ONCE = 32  # tasks whose guesses are in flight together
SILENCE_S = 600.0
ENDED_WELL = ("stop", "length")
ROUNDING = 1e-9


def guess(
    tasks: Sequence[int], policy: Policy, check: Check, engine: str = "auto", tell: Callable[[int], None] = lambda done: None
) -> Tally:
    """Guess these tasks by the policy's weights; `tell(tasks done)` after each lot. Raises EngineDied, DamagedWeights."""
    tally = Tally()
    for lot in tried(tasks, policy, check, engine, tell):
        found = [
            Guess(
                task=one.task, policy=policy, scorer="+".join(choice.scorer for choice in check.judges_of(one.task))[:60],
                tries=len(one.right), right=sum(one.right), said=_shown(one.replies, one.right),
            )
            for one in lot.judged
        ]  # fmt: skip
        keep(found)
        tally += Tally(len(found), sum(guess.right > 0 for guess in found), lot.asked - len(found))
    return tally


@dataclass(frozen=True)
class Tried:
    """A task, what the policy replied to it, and which of the replies were right."""

    task: Task
    replies: Sequence[str]
    right: Sequence[bool]


@dataclass(frozen=True)
class Lot:
    """Tasks that were tried together: how many, and those whose replies could be judged."""

    asked: int
    judged: Sequence[Tried]


def tried(
    tasks: Sequence[int], policy: Policy, check: Check, engine: str = "auto", tell: Callable[[int], None] = lambda done: None
) -> Iterator[Lot]:
    """Let the policy's weights try these tasks, some at a time; `tell(tasks done)` when a lot was taken up.

    Raises EngineDied, DamagedWeights.
    """
    folder = Path(policy.folder)
    manifest, speaker = verify(folder), Speaker(folder)
    running, _ = build(
        engine, temperature=check.temperature, threads=settings.ENGINE_THREADS,
        memory_share=settings.GPU_MEMORY_PERCENT / 100, sees=policy.sees_pictures,
    )  # fmt: skip
    try:
        running.start(folder, 0, manifest.probe)
        for start in range(0, len(tasks), AT_ONCE):
            yield _lot(tasks[start : start + AT_ONCE], policy, check, running, speaker)
            tell(min(start + AT_ONCE, len(tasks)))
    finally:
        running.stop()


def _lot(ids: Sequence[int], policy: Policy, check: Check, engine: Engine, speaker: Speaker) -> Lot:
    tasks = Task.objects.in_bulk(ids)
    requests = [request for task in tasks.values() for request in _requests(task, policy, check, speaker)]
    replies = _sampled(requests, engine, speaker)
    return Lot(len(tasks), [Tried(tasks[pk], replies[pk], right) for pk, right in _right(tasks, replies, check).items()])


def _requests(task: Task, policy: Policy, check: Check, speaker: Speaker) -> Iterator[Request]:
    messages = instructed(task.prompt, check.instruction)
    spelt = speaker.prompt(messages, pngs=pngs_of(policy.project_id, pictures_of(messages)))
    prompt = spelt.token_ids if check.thinks else speaker.without_thoughts(spelt.token_ids)
    for n in range(check.tries):
        seed = chance.seed("guess", check.seed, task.index, n)
        sampling = Sampling(check.max_tokens, check.temperature, speaker.stop_token_ids, seed)
        yield Request(f"{task.pk}:{n}", prompt, sampling, spelt.pictures)


def instructed(messages: Sequence[dict], instruction: str) -> list[dict]:
    """The messages with the instruction at the end of the last one."""
    *before, last = messages
    said = last["content"]
    if instruction:
        said = f"{said}\n\n{instruction}" if isinstance(said, str) else [*said, {"type": "text", "text": instruction}]
    return [*before, {**last, "content": said}]


def _sampled(requests: Sequence[Request], engine: Engine, speaker: Speaker) -> dict[int, list[str]]:
    """The guesses at each task, as texts; fewer where one could not be made."""
    engine.submit(list(requests))
    said: dict[str, list[int]] = defaultdict(list)
    texts: dict[int, list[str]] = defaultdict(list)
    under_way, heard_at = {request.id for request in requests}, time.monotonic()
    while under_way:
        for delta in engine.drain(1.0):
            heard_at = time.monotonic()
            said[delta.request_id] += delta.token_ids
            if delta.stop_reason is not None:
                under_way.discard(delta.request_id)
            if delta.stop_reason in ENDED_WELL:
                texts[int(delta.request_id.partition(":")[0])].append(speaker.text(said[delta.request_id]))
        if time.monotonic() - heard_at > SILENCE_S:
            raise EngineDied(f"the engine has said nothing for {SILENCE_S:.0f} s")
    return texts


def _right(tasks: Mapping[int, Task], replies: Mapping[int, Sequence[str]], check: Check) -> dict[int, list[bool]]:
    """By task, which guesses get all that its scorers can give; not of tasks without a scorer, or of which none was judged."""
    asked = [(pk, choice, text) for pk, texts in replies.items() for choice in check.judges_of(tasks[pk]) for text in texts]
    views = {pk: TaskView(task.prompt, task.answer, task.domain, task.meta) for pk, task in tasks.items()}
    questions = [
        Question(0, choice.scorer, (n,), (RolloutView(text),), views[pk], options_of(choice, views[pk].meta))
        for n, (pk, choice, text) in enumerate(asked)
    ]
    values = {answer.question.rollout_ids[0]: answer.verdicts[0].value for answer in by_rule(questions)}
    given: dict[int, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for n, (pk, choice, _) in enumerate(asked):
        given[pk][choice.scorer].append(values[n])
    return {
        pk: [all(_is_full(name, said[n]) for name, said in by_scorer.items()) for n in range(len(replies[pk]))]
        for pk, by_scorer in given.items()
        if any(value is not None for said in by_scorer.values() for value in said)
    }


def _is_full(scorer: str, value: float | None) -> bool:
    return value is not None and value >= find(scorer).high - ROUNDING


def _shown(replies: Sequence[str], verdicts: Sequence[bool]) -> str:
    """A guess that was right, else the first."""
    right = [reply for reply, is_right in zip(replies, verdicts, strict=True) if is_right]
    return (right or replies)[0][:MOST_SAID].replace("\x00", "")
