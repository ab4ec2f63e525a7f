"""Leave out tasks whose prompts are longer than the run allows, or leave no room for a reply.

All tasks of a run that begins are checked, the longest first, within a time limit. The others are
checked when a draw is about to take them, so no group is ever opened for a task that is too long.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog
from django.db.models import F, Func, IntegerField
from django.db.models.fields import TextField
from django.db.models.functions import Cast
from jinja2 import TemplateError

from apps.accounts.locking import unit_of_work
from apps.rollouts.excluded_tasks import TOO_LONG
from apps.rollouts.task_filter import CheckedTasks, Sieve, leave_out
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Task
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.vision.image_processor import Unreadable

if TYPE_CHECKING:
    from workers.explorer.session import RunSession

log = structlog.get_logger(__name__)
START_SECONDS = 10.0
START_TASKS = 20_000  # tasks checked when a run begins
LOOKED_AT_ONCE = 200


@dataclass(frozen=True)
class LengthsLooked:
    """The tasks that are too long, and those that the run's operators rejected of the others."""

    left_out: Mapping[int, tuple[str, str]]
    by_operators: CheckedTasks | None = None

    def record(self, run: Run) -> None:
        if self.by_operators is not None:
            self.by_operators.record(run)


def sieve_of_lengths(session: "RunSession", operators: Sieve | None) -> Sieve | None:
    """Return a filter that checks prompt lengths and applies the operators to tasks that fit."""
    return partial(_check_lengths, session, operators) if _is_checked(session) else operators


def leave_out_too_long(session: "RunSession") -> None:
    """Exclude too long tasks from a run that begins. Raises NothingToDraw if no task is left."""
    if not _is_checked(session) or session.run.groups_opened:
        return
    began = time.monotonic()
    too_long: dict[int, tuple[str, str]] = {}
    candidates = _longest(session)
    for start in range(0, len(candidates), LOOKED_AT_ONCE):
        if time.monotonic() - began > START_SECONDS:
            break
        tasks = Task.objects.filter(pk__in=candidates[start : start + LOOKED_AT_ONCE])
        too_long |= _too_long(session, tasks)
    if too_long:
        _leave_out(session.run, too_long)
        log.warning("prompts_too_long", run=session.run, tasks=len(too_long))


@unit_of_work
def _leave_out(run: Run, too_long: Mapping[int, tuple[str, str]]) -> None:
    """Exclude the tasks that no other explorer has excluded meanwhile. Raises NothingToDraw."""
    locked = Run.locked(run.pk)
    excluded = set(locked.left_out.values_list("task", flat=True))
    leave_out(locked, {task: why for task, why in too_long.items() if task not in excluded})


def _is_checked(session: "RunSession") -> bool:
    """Tell whether lengths are checked.

    They are not where an environment speaks first, nor in an evaluation, which asks every task.
    """
    if session.episodes is not None or session.plan.evaluation:
        return False
    return _max_text_tokens(session) > 0


def _check_lengths(
    session: "RunSession", operators: Sieve | None, run: Run, plan: RunConfig, tasks: Sequence[Task]
) -> LengthsLooked:
    too_long = _too_long(session, tasks)
    if operators is None:
        return LengthsLooked(too_long)
    checked = operators(run, plan, [task for task in tasks if task.pk not in too_long])
    return LengthsLooked({**checked.left_out, **too_long}, checked)


def _too_long(session: "RunSession", tasks: Iterable[Task]) -> dict[int, tuple[str, str]]:
    """Return (operator, reason) of each task that is too long, by task id."""
    max_tokens, limit = _longest_prompt(session)
    too_long: dict[int, tuple[str, str]] = {}
    for task in tasks:
        if _fits_surely(task, session.chat_tokenizer, max_tokens):
            continue
        # A task that cannot be rendered or read pauses the run, with the reason, when it is
        # sampled.
        with suppress(TemplateError, Unreadable):
            prompt = session.chat_tokenizer.encode_prompt(
                task.prompt, pngs=session.planner.pictures_in(task.prompt)
            )
            if (length := len(prompt.token_ids)) > max_tokens:
                too_long[task.pk] = TOO_LONG, f"{length:,} tokens {limit}"
    return too_long


def _max_text_tokens(session: "RunSession") -> int:
    """Return the limit in tokens of prompt and reply together; 0 if there is none."""
    return session.plan.room_in(session.run.policy.context_tokens)


def _longest_prompt(session: "RunSession") -> tuple[int, str]:
    """Return the maximum of tokens of a prompt, and in words what sets it."""
    text = _max_text_tokens(session)
    prompt_limit = session.plan.sampling.max_prompt_tokens
    if prompt_limit is not None and prompt_limit < text:
        return (
            prompt_limit,
            f"exceed the limit of {prompt_limit:,} set by sampling.max_prompt_tokens",
        )
    context = session.run.policy.context_tokens
    limit = "the policy reads" if text == context else "vllm.max_model_len allows"
    return text - 1, f"leave no room for a reply; {limit} {text:,}"


def _fits_surely(task: Task, chat_tokenizer: ChatTokenizer, max_tokens: int) -> bool:
    """Tell whether the prompt fits by its bytes alone: each token stands for at least one byte.

    A picture may have any number of tokens, so a task with pictures is not known to fit.
    """
    if list_pictures(task.prompt):
        return False
    texts = (message["content"] for message in task.prompt)
    size = sum(len(str(text).encode("utf-8", "replace")) for text in texts)
    return size + len(task.prompt) * chat_tokenizer.tokens_around <= max_tokens


def _longest(session: "RunSession") -> Sequence[int]:
    """Return the ids of tasks whose prompts may be too long by their bytes, the longest first."""
    text = Cast(F("prompt"), TextField())
    size = Func(text, function="octet_length", output_field=IntegerField())
    min_size = _longest_prompt(session)[0] + 1 - session.chat_tokenizer.tokens_around
    long = session.run.tasks.annotate(size=size).filter(size__gte=min_size).order_by("-size", "pk")
    return list(long.values_list("pk", flat=True)[:START_TASKS])
