"""What a rollout is to say, in tokens: from its task, or from what an environment showed first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apps.policies.manifest import Shown
from apps.runs.limits import limits_of
from apps.tasksets.limits import Limits
from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task
from apps.tasksets.rows import user_message
from workers.explorer.speaker import Spelt
from workers.pictures import pngs_of

if TYPE_CHECKING:
    from workers.explorer.seat import Seat


@dataclass(frozen=True)
class FollowUp:
    """What the user says after an answer, and the template's tokens from behind that answer to the next one.

    `pictures`: those it shows, places counted from its first token.
    """

    text: str
    token_ids: tuple[int, ...]
    pictures: tuple[Shown, ...] = ()


@dataclass(frozen=True)
class Script:
    """What a task prescribes: its messages, in tokens too, and what the user says later.

    `max_tokens`: the most for all that comes behind the prompt; `room`: how much of that the policy's context leaves.
    `pictures`: those that the prompt shows. `repeats`: period, times and tokens of a loop that is stopped; None stops none.
    `slice_tokens`: the most that is said in one go; None says it to its end. `time_s`: how long the engine may be at it.
    """

    task_id: int
    prompt: list[dict]
    prompt_ids: tuple[int, ...]
    follow_ups: tuple[FollowUp, ...]
    max_tokens: int
    room: int
    pictures: tuple[Shown, ...] = ()
    repeats: tuple[int, int, int] | None = None
    slice_tokens: int | None = None
    time_s: float | None = None


def of_task(seat: "Seat", task: Task) -> Script:
    """Raises NoDialogue where users have more to say than the policy's chat template can take, and BadLimits."""
    said, follow_ups = list(task.prompt), []
    for text in task.follow_ups:
        follow_ups.append(FollowUp(text, seat.speaker.between(said, user_message(text))))
    prompt = seat.speaker.prompt(said, pngs=shown_in(seat, said))
    return spelt(seat, task.pk, limits_of(seat.plan, task.meta), said, prompt, tuple(follow_ups))


def unheard(seat: "Seat", task: Task) -> Script:
    """Of a task whose environment speaks first: what there is before. Raises BadLimits."""
    limits = limits_of(seat.plan, task.meta)
    return Script(task.pk, list(task.prompt), (), (), limits.max_tokens, 0)


def heard(seat: "Seat", before: Script, said: list[dict], prompt: Spelt) -> Script:
    """It has spoken: the prompt is there, within the same limits."""
    return spelt(seat, before.task_id, Limits(before.max_tokens), said, prompt)


def shown_in(seat: "Seat", said: list[dict]) -> dict[str, bytes]:
    """The pictures that messages show, by name: bytes of ours out of the database. Raises Unreadable."""
    return pngs_of(seat.run.project_id, pictures_of(said))


def spelt(
    seat: "Seat", task_id: int, limits: Limits, said: list[dict], prompt: Spelt, follow_ups: tuple[FollowUp, ...] = ()
) -> Script:
    """The prompt and what follows it, within these limits and what the policy's context leaves."""
    most = limits.max_tokens
    context = seat.run.policy.context_tokens
    room = min(most, context - len(prompt.token_ids)) if context else most
    loop = seat.plan.sampling.repeats
    repeats = (loop.period, loop.times, loop.tokens) if loop else None
    slice_tokens = seat.plan.sampling.slice_tokens
    return Script(task_id, said, prompt.token_ids, follow_ups, most, room, prompt.pictures, repeats, slice_tokens, limits.time_s)
