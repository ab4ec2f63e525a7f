"""Leave out tasks whose prompts leave no room for a reply in the policy's context.

All tasks of a run that begins are looked at, the longest first, within a time limit. Those that
remain are looked at when a draw is about to take them, so no group is ever opened for one.
"""

import time
from collections.abc import Mapping, Sequence
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
from apps.rollouts.left_out import TOO_LONG
from apps.rollouts.sifting import Looked, Sieve, leave_out
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task
from workers.explorer import scripts
from workers.explorer.speaker import Speaker
from workers.vision.eyes import Unreadable

if TYPE_CHECKING:
    from workers.explorer.seat import Seat

log = structlog.get_logger(__name__)
START_SECONDS = 10.0
START_TASKS = 20_000  # looked at when a run begins
LOOKED_AT_ONCE = 200


@dataclass(frozen=True)
class LengthsLooked:
    """Which tasks are too long, and what the run's operators left out of the others."""

    left_out: Mapping[int, tuple[str, str]]
    others: Looked | None = None

    def record(self, run: Run) -> None:
        if self.others is not None:
            self.others.record(run)


def sieve_of_lengths(seat: "Seat", operators: Sieve | None) -> Sieve | None:
    """Looks at prompts' lengths, then has the operators look at those that fit."""
    return partial(_look, seat, operators) if _is_checked(seat) else operators


def leave_out_too_long(seat: "Seat") -> None:
    """Leave out of a run that begins what is too long. Raises NothingToDraw if no task is left."""
    if not _is_checked(seat) or seat.run.groups_opened:
        return
    began, found = time.monotonic(), {}
    candidates = list(_longest(seat))
    for start in range(0, len(candidates), LOOKED_AT_ONCE):
        if time.monotonic() - began > START_SECONDS:
            break
        tasks = Task.objects.filter(pk__in=candidates[start : start + LOOKED_AT_ONCE])
        found |= _too_long(seat, tasks)
    if found:
        _leave_out(seat.run, found)
        log.warning("prompts_too_long", run=seat.run, tasks=len(found))


@unit_of_work
def _leave_out(run: Run, found: Mapping[int, tuple[str, str]]) -> None:
    """Leave out those that no other explorer has left out meanwhile. Raises NothingToDraw."""
    locked = Run.locked(run.pk)
    known = set(locked.left_out.values_list("task", flat=True))
    leave_out(locked, {task: why for task, why in found.items() if task not in known})


def _is_checked(seat: "Seat") -> bool:
    """Not where an environment speaks first, nor in an evaluation, which asks every task."""
    if seat.episodes is not None or seat.plan.evaluation:
        return False
    return bool(seat.run.policy.context_tokens)


def _look(
    seat: "Seat", operators: Sieve | None, run: Run, plan: RunConfig, tasks: Sequence[Task]
) -> LengthsLooked:
    too_long = _too_long(seat, tasks)
    if operators is None:
        return LengthsLooked(too_long)
    others = operators(run, plan, [task for task in tasks if task.pk not in too_long])
    return LengthsLooked({**others.left_out, **too_long}, others)


def _too_long(seat: "Seat", tasks: Sequence[Task]) -> dict[int, tuple[str, str]]:
    """By task (id): under which name it is left out, and why."""
    context, found = seat.run.policy.context_tokens, {}
    for task in tasks:
        if _fits_surely(task, seat.speaker, context):
            continue
        # What cannot be rendered or read pauses the run when it is drawn, with the reason.
        with suppress(TemplateError, Unreadable):
            prompt = seat.speaker.prompt(task.prompt, pngs=scripts.shown_in(seat, task.prompt))
            if (length := len(prompt.token_ids)) >= context:
                why = f"{length:,} tokens leave no room for a reply; the policy reads {context:,}"
                found[task.pk] = TOO_LONG, why
    return found


def _fits_surely(task: Task, speaker: Speaker, context: int) -> bool:
    """By its bytes: a token stands for at least one. Pictures may have any number of tokens."""
    if pictures_of(task.prompt):
        return False
    texts = (message["content"] for message in task.prompt)
    size = sum(len(str(text).encode("utf-8", "replace")) for text in texts)
    return size + len(task.prompt) * speaker.tokens_around < context


def _longest(seat: "Seat") -> Sequence[int]:
    """Ids of tasks whose prompts may be too long, by their bytes, the longest first."""
    text = Cast(F("prompt"), TextField())
    size = Func(text, function="octet_length", output_field=IntegerField())
    least = seat.run.policy.context_tokens - seat.speaker.tokens_around
    long = seat.run.tasks.annotate(size=size).filter(size__gte=least).order_by("-size", "pk")
    return long.values_list("pk", flat=True)[:START_TASKS]
