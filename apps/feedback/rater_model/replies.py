"""Read rollouts from their rows as input of the rater model."""

from collections.abc import Iterable
from functools import lru_cache

from apps.feedback.models import RolloutBaseNll as SurpriseRow
from apps.feedback.rater_model.reading import BaseNll, ReplyFeatures, Topics, extract_features
from apps.rollouts.models import Rollout
from apps.tasksets.messages import content_text
from apps.tasksets.models import Task

# Prompts of a run's tasksets that are read, to know which words identify a topic.
PROMPTS_LOOKED_AT = 2_000


def replies(rollouts: Iterable[int]) -> dict[int, tuple[str, str, BaseNll]]:
    """Return (prompt, text, base NLL) of the rollouts whose base NLL is known, by id.

    One statement.
    """
    rows = SurpriseRow.objects.filter(
        rollout__in=set(rollouts), rollout__state=Rollout.State.FINISHED
    )
    names = ("rollout", "rollout__group__task__prompt", "rollout__text", "mean", "worst", "rare")
    return {
        rollout: (join_user_text(prompt), text, BaseNll(mean, worst, rare))
        for rollout, prompt, text, mean, worst, rare in rows.values_list(*names)
    }


def extract_features_by_rollout(
    rows: dict[int, tuple[str, str, BaseNll]], topics: Topics
) -> dict[int, ReplyFeatures]:
    return {
        rollout: extract_features(prompt, text, surprise, topics)
        for rollout, (prompt, text, surprise) in rows.items()
    }


def join_user_text(prompt: list[dict]) -> str:
    """Return the text of the user's messages in a prompt."""
    return "\n".join(
        content_text(message["content"]) for message in prompt if message["role"] == "user"
    )


@lru_cache(maxsize=32)
def learn_topics(tasksets: tuple[int, ...]) -> Topics:
    """Return the topics of the first prompts of these sets.

    The prompts of a set never change once a run has used it.
    """
    prompts_per_set = PROMPTS_LOOKED_AT // len(tasksets)
    first = (
        Task.objects.filter(taskset=taskset)
        .order_by("index")
        .values_list("prompt", flat=True)[:prompts_per_set]
        for taskset in tasksets
    )
    return Topics(join_user_text(prompt) for prompts in first for prompt in prompts)
