"""What a rollout is to say, in tokens: from its task, or from what an environment showed first."""

from typing import TYPE_CHECKING

from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task
from apps.tasksets.rows import user_message
from workers.explorer.flight import FollowUp, Script
from workers.explorer.speaker import Spelt
from workers.pictures import pngs_of

if TYPE_CHECKING:
    from workers.explorer.seat import Seat


def of_task(seat: "Seat", task: Task) -> Script:
    """Raises NoDialogue where users have more to say than the policy's chat template can take."""
    said, follow_ups = list(task.prompt), []
    for text in task.follow_ups:
        follow_ups.append(FollowUp(text, seat.speaker.between(said, user_message(text))))
    return spelt(seat, task.pk, said, seat.speaker.prompt(said, pngs=shown_in(seat, said)), tuple(follow_ups))


def shown_in(seat: "Seat", said: list[dict]) -> dict[str, bytes]:
    """The pictures that messages show, by name: bytes of ours out of the database. Raises Unreadable."""
    return pngs_of(seat.run.project_id, pictures_of(said))


def spelt(seat: "Seat", task_id: int, said: list[dict], prompt: Spelt, follow_ups: tuple[FollowUp, ...] = ()) -> Script:
    """The prompt and what follows it, within what the run and the policy's context allow."""
    most = seat.plan.sampling.max_tokens
    context = seat.run.policy.context_tokens
    room = min(most, context - len(prompt.token_ids)) if context else most
    loop = seat.plan.sampling.repeats
    repeats = (loop.period, loop.times, loop.tokens) if loop else None
    slice_tokens = seat.plan.sampling.slice_tokens
    return Script(task_id, said, prompt.token_ids, follow_ups, most, room, prompt.pictures, repeats, slice_tokens)
