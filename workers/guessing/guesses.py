"""Guesses: sampled, judged and stored in batches, so that an interrupted check resumes."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.feedback.models import Guess
from apps.feedback.suspicions.guesses import EXAMPLE_LENGTH, GuessCheck, GuessTally, save_guesses
from apps.policies.manifest import verify_folder
from apps.policies.models import Policy
from apps.rewards.own_options import task_options
from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.rewards.scoring import Question
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Task
from apps.tasksets.selection import chance
from workers.engines.choose import build_engine
from workers.engines.interface import Engine, EngineDied, Request, Sampling
from workers.engines.vllm_options import VllmOptions
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.pictures import load_pngs
from workers.scorer_dispatch import by_rule
from workers.vllm_plan import installed_share

AT_ONCE = 32  # tasks whose guesses are in flight together
SILENCE_S = 600.0
ENDED_WELL = ("stop", "length")
ROUNDING = 1e-9


def guess(
    tasks: Sequence[int],
    policy: Policy,
    check: GuessCheck,
    engine: str = "auto",
    tell: Callable[[int], None] = lambda count: None,
) -> GuessTally:
    """Guess these tasks with the policy's weights; call `tell(tasks done)` after each batch.

    Raises EngineDied, DamagedWeights.
    """
    tally = GuessTally()
    for lot in try_tasks(tasks, policy, check, engine, tell):
        guesses = [
            Guess(
                task=trial.task,
                policy=policy,
                scorer="+".join(choice.scorer for choice in check.judges_of(trial.task))[:60],
                tries=len(trial.right),
                right=sum(trial.right),
                example=_choose_example(trial.replies, trial.right),
            )
            for trial in lot.judged
        ]
        save_guesses(guesses)
        tally += GuessTally(
            len(guesses), sum(guess.right > 0 for guess in guesses), lot.size - len(guesses)
        )
    return tally


@dataclass(frozen=True)
class TriedTask:
    """A task, the policy's replies to it, and which of them were right."""

    task: Task
    replies: Sequence[str]
    right: Sequence[bool]


@dataclass(frozen=True)
class TriedBatch:
    """A batch of tasks tried together: how many, and those whose replies could be judged."""

    size: int
    judged: Sequence[TriedTask]


def try_tasks(
    tasks: Sequence[int],
    policy: Policy,
    check: GuessCheck,
    engine: str = "auto",
    tell: Callable[[int], None] = lambda count: None,
) -> Iterator[TriedBatch]:
    """Yield batches of tasks tried with the policy's weights.

    Calls `tell(tasks done)` when a batch was consumed. Raises EngineDied, DamagedWeights.
    """
    folder = Path(policy.folder)
    manifest = verify_folder(folder)
    chat_tokenizer = ChatTokenizer(folder)
    running, _ = build_engine(
        engine,
        temperature=check.temperature,
        threads=settings.ENGINE_THREADS,
        vllm=VllmOptions(memory_share=installed_share()),
        sees=policy.sees_pictures,
        parameters=policy.parameters,
    )
    try:
        running.start(folder, 0, manifest.probe)
        for start in range(0, len(tasks), AT_ONCE):
            yield _lot(tasks[start : start + AT_ONCE], policy, check, running, chat_tokenizer)
            tell(min(start + AT_ONCE, len(tasks)))
    finally:
        running.stop()


def _lot(
    ids: Sequence[int],
    policy: Policy,
    check: GuessCheck,
    engine: Engine,
    chat_tokenizer: ChatTokenizer,
) -> TriedBatch:
    tasks = Task.objects.in_bulk(ids)
    requests = [
        request
        for task in tasks.values()
        for request in _requests(task, policy, check, chat_tokenizer)
    ]
    replies = _sampled(requests, engine, chat_tokenizer)
    return TriedBatch(
        len(tasks),
        [
            TriedTask(tasks[pk], replies[pk], right)
            for pk, right in _right(tasks, replies, check).items()
        ],
    )


def _requests(
    task: Task, policy: Policy, check: GuessCheck, chat_tokenizer: ChatTokenizer
) -> Iterator[Request]:
    messages = instructed(task.prompt, check.instruction)
    encoded = chat_tokenizer.encode_prompt(
        messages, pngs=load_pngs(policy.project_id, list_pictures(messages))
    )
    prompt = (
        encoded.token_ids if check.thinks else chat_tokenizer.without_thoughts(encoded.token_ids)
    )
    for n in range(check.tries):
        seed = chance.derive_seed("guess", check.seed, task.index, n)
        sampling = Sampling(
            check.max_tokens, check.temperature, chat_tokenizer.stop_token_ids, seed
        )
        yield Request(f"{task.pk}:{n}", prompt, sampling, encoded.pictures)


def instructed(messages: Sequence[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """Return the messages with the instruction at the end of the last one."""
    *before, last = messages
    content = last["content"]
    if instruction:
        content = (
            f"{content}\n\n{instruction}"
            if isinstance(content, str)
            else [*content, {"type": "text", "text": instruction}]
        )
    return [*before, {**last, "content": content}]


def _sampled(
    requests: Sequence[Request], engine: Engine, chat_tokenizer: ChatTokenizer
) -> dict[int, list[str]]:
    """Return the guesses at each task, as texts; fewer where one could not be made."""
    engine.submit(list(requests))
    guesses: dict[str, list[int]] = defaultdict(list)
    texts: dict[int, list[str]] = defaultdict(list)
    under_way = {request.id for request in requests}
    heard_at = time.monotonic()
    while under_way:
        for delta in engine.drain(1.0):
            heard_at = time.monotonic()
            guesses[delta.request_id] += delta.token_ids
            if delta.stop_reason is not None:
                under_way.discard(delta.request_id)
            if delta.stop_reason in ENDED_WELL:
                texts[int(delta.request_id.partition(":")[0])].append(
                    chat_tokenizer.text(guesses[delta.request_id])
                )
        if time.monotonic() - heard_at > SILENCE_S:
            raise EngineDied(f"the engine has not responded for {SILENCE_S:.0f} s")
    return texts


def _right(
    tasks: Mapping[int, Task], replies: Mapping[int, Sequence[str]], check: GuessCheck
) -> dict[int, list[bool]]:
    """Return, by task, which guesses get the full reward of its scorers.

    Tasks without a scorer, or of which no guess was judged, are left out.
    """
    trials = [
        (pk, choice, text)
        for pk, texts in replies.items()
        for choice in check.judges_of(tasks[pk])
        for text in texts
    ]
    views = {
        pk: TaskView(task.prompt, task.answer, task.domain, task.meta) for pk, task in tasks.items()
    }
    questions = []
    for n, (pk, choice, text) in enumerate(trials):
        view = views[pk]
        options = task_options(choice, view.meta)
        questions.append(Question(0, choice.scorer, (n,), (RolloutView(text),), view, options))
    values = {
        answer.question.rollout_ids[0]: answer.verdicts[0].value for answer in by_rule(questions)
    }
    values_by_scorer: dict[int, dict[str, list[float | None]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for n, (pk, choice, _) in enumerate(trials):
        values_by_scorer[pk][choice.scorer].append(values[n])
    return {
        pk: [
            all(_is_full(name, right[n]) for name, right in by_scorer.items())
            for n in range(len(replies[pk]))
        ]
        for pk, by_scorer in values_by_scorer.items()
        if any(value is not None for right in by_scorer.values() for value in right)
    }


def _is_full(scorer: str, value: float | None) -> bool:
    return value is not None and value >= find_scorer(scorer).high - ROUNDING


def _choose_example(replies: Sequence[str], verdicts: Sequence[bool]) -> str:
    """Return an example: a right guess if there is one, else the first."""
    right = [reply for reply, is_right in zip(replies, verdicts, strict=True) if is_right]
    return (right or replies)[0][:EXAMPLE_LENGTH].replace("\x00", "")
