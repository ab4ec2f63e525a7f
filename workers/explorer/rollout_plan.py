"""The plan of a rollout in tokens: from its task, or from an environment's first observation."""

from dataclasses import dataclass
from typing import Any

from apps.policies.manifest import ShownPicture
from apps.runs.config import RunConfig
from apps.runs.limits import read_limits
from apps.runs.models import Run
from apps.tasksets.limits import Limits
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Task
from apps.tasksets.rows import user_message
from workers.explorer.chat_tokenizer import ChatTokenizer, EncodedPrompt
from workers.pictures import load_pngs


@dataclass(frozen=True)
class FollowUp:
    """A user message after an answer, with the template's tokens from that answer to the next.

    `pictures` are those it shows, with positions counted from its first token.
    """

    text: str
    token_ids: tuple[int, ...]
    pictures: tuple[ShownPicture, ...] = ()


@dataclass(frozen=True)
class RolloutPlan:
    """The plan of a rollout: the task's messages, their tokens, and the user's later messages.

    - `max_tokens`: the most tokens after the prompt.
    - `room`: how many of these the longest text leaves.
    - `pictures`: those that the prompt shows.
    - `repeats`: period, times and tokens of a loop that is stopped. None stops none.
    - `slice_tokens`: the most tokens of one slice. None samples to the end.
    - `time_s`: the most engine seconds.
    """

    task_id: int
    prompt: list[dict[str, Any]]
    prompt_ids: tuple[int, ...]
    follow_ups: tuple[FollowUp, ...]
    max_tokens: int
    room: int
    pictures: tuple[ShownPicture, ...] = ()
    repeats: tuple[int, int, int] | None = None
    slice_tokens: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class RolloutPlanner:
    """Makes the plans of a run's rollouts, by its configuration and in its policy's tokens."""

    run: Run
    plan: RunConfig
    chat_tokenizer: ChatTokenizer

    def of_task(self, task: Task) -> RolloutPlan:
        """Return the plan of a task.

        Raises BadLimits, and UnsupportedDialogue where the chat template cannot take the user's
        further messages.
        """
        messages = list(task.prompt)
        follow_ups = []
        for text in task.follow_ups:
            token_ids = self.chat_tokenizer.follow_up_ids(messages, user_message(text))
            follow_ups.append(FollowUp(text, token_ids))
        prompt = self.chat_tokenizer.encode_prompt(messages, pngs=self.pictures_in(messages))
        limits = read_limits(self.plan, task.meta)
        return self._plan(task.pk, limits, messages, prompt, tuple(follow_ups))

    def without_prompt(self, task: Task) -> RolloutPlan:
        """Return the plan of a task whose environment speaks first, without a prompt.

        Raises BadLimits.
        """
        limits = read_limits(self.plan, task.meta)
        return RolloutPlan(task.pk, list(task.prompt), (), (), _max_tokens(limits), 0)

    def with_prompt(
        self, before: RolloutPlan, messages: list[dict[str, Any]], prompt: EncodedPrompt
    ) -> RolloutPlan:
        """Return the plan with the prompt after the first observation, within the same limits."""
        return self._plan(before.task_id, Limits(before.max_tokens), messages, prompt)

    def pictures_in(self, messages: list[dict[str, Any]]) -> dict[str, bytes]:
        """Return the pictures that messages show, by name, as bytes from the database.

        Raises Unreadable.
        """
        return load_pngs(self.run.project_id, list_pictures(messages))

    def _plan(
        self,
        task_id: int,
        limits: Limits,
        messages: list[dict[str, Any]],
        prompt: EncodedPrompt,
        follow_ups: tuple[FollowUp, ...] = (),
    ) -> RolloutPlan:
        """Return the plan within these limits and the room that the longest text leaves."""
        max_tokens = _max_tokens(limits)
        context = self.plan.room_in(self.run.policy.context_tokens)
        room = min(max_tokens, context - len(prompt.token_ids)) if context else max_tokens
        loop = self.plan.sampling.repeats
        repeats = (loop.max_pattern_size, loop.min_count, loop.min_tokens) if loop else None
        slice_tokens = self.plan.sampling.slice_tokens
        return RolloutPlan(
            task_id,
            messages,
            prompt.token_ids,
            follow_ups,
            max_tokens,
            room,
            prompt.pictures,
            repeats,
            slice_tokens,
            limits.time_s,
        )


def _max_tokens(limits: Limits) -> int:
    """Return the most tokens after the prompt; a run's sampling always sets a limit."""
    assert limits.max_tokens is not None
    return limits.max_tokens
