"""Rollouts as the rater model sees them, from their rows."""

from collections.abc import Iterable
from functools import lru_cache

from apps.feedback.models import Surprise as SurpriseRow
from apps.feedback.rater_model.reading import Seen, Surprise, Topics, read
from apps.rollouts.models import Rollout
from apps.tasksets.messages import text_of
from apps.tasksets.models import Task

PROMPTS_LOOKED_AT = 2_000  # of a run's tasksets together, to know which words say what a prompt is about


def replies(rollouts: Iterable[int]) -> dict[int, tuple[str, str, Surprise]]:
    """(prompt, text, surprise) of the rollouts whose surprise is known, by id; one statement."""
    rows = SurpriseRow.objects.filter(rollout__in=set(rollouts), rollout__state=Rollout.State.FINISHED)
    names = ("rollout", "rollout__group__task__prompt", "rollout__text", "mean", "worst", "rare")
    return {
        rollout: (asked(prompt), text, Surprise(mean, worst, rare))
        for rollout, prompt, text, mean, worst, rare in rows.values_list(*names)
    }


def seen(found: dict[int, tuple[str, str, Surprise]], topics: Topics) -> dict[int, Seen]:
    return {rollout: read(prompt, text, surprise, topics) for rollout, (prompt, text, surprise) in found.items()}


def asked(prompt: list[dict]) -> str:
    """What the user says in a prompt's messages."""
    return "\n".join(text_of(message["content"]) for message in prompt if message["role"] == "user")


@lru_cache(maxsize=32)
def topics_of(tasksets: tuple[int, ...]) -> Topics:
    """Of the first prompts of each of these sets, which never change once a run has used them."""
    each = PROMPTS_LOOKED_AT // len(tasksets)
    first = (Task.objects.filter(taskset=one).order_by("index").values_list("prompt", flat=True)[:each] for one in tasksets)
    return Topics(asked(prompt) for prompts in first for prompt in prompts)
