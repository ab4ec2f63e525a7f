"""The check for easy guesses: its tasks, scorers and results (Kimi k1.5, section 2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models.functions import Now

from apps.feedback.models import Guess
from apps.policies.models import Policy
from apps.rewards import learned, scorers
from apps.rewards.hacking.formatting import SHAPES
from apps.rewards.hacking.guessing import TRIES
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset

EXAMPLE_LENGTH = 300
INSTRUCTION = "Give the final answer alone, at once: no reasoning, no explanation."


@dataclass(frozen=True)
class GuessCheck:
    """The settings of a check.

    `judges`: a guess is right if all of them that judge its domain give the full reward.
    """

    judges: Sequence[ScorerChoice]
    tries: int = TRIES
    max_tokens: int = 32
    temperature: float = 1.0
    instruction: str = INSTRUCTION
    seed: int = 0
    thinks: bool = False  # the policy may think before it answers

    def judges_of(self, task: Task) -> list[ScorerChoice]:
        """Return the scorers that the task names, or, if it names none, those of its domain."""
        domain, named_scorers = task.kind
        return [
            judge
            for judge in self.judges
            if (
                judge.scorer in named_scorers
                if named_scorers
                else not judge.domains or domain in judge.domains
            )
        ]


@dataclass(frozen=True)
class GuessTally:
    """The result of a check.

    `easy` were guessed right at least once; for `unjudged` no scorer could judge a guess, or none
    could be made.
    """

    checked: int = 0
    easy: int = 0
    unjudged: int = 0

    def __add__(self, other: "GuessTally") -> "GuessTally":
        return GuessTally(
            self.checked + other.checked, self.easy + other.easy, self.unjudged + other.unjudged
        )


def list_correctness_scorers(plan: RunConfig) -> list[ScorerChoice]:
    """Return the run's scorers of correctness.

    Scorers of form, and those that compare a group, call a model or are learned, are left out.
    """
    return [choice for choice in plan.rewards if why_not_guessable(choice.scorer) == ""]


def why_not_guessable(scorer: str) -> str:
    """Return why a scorer cannot judge whether a guess is right; "" if it can."""
    if learned.is_learned(scorer):
        return "it is a learned scorer without a full value"
    if scorer not in scorers.scorer_names():
        return "the scorer doesn’t exist"
    if scorer in SHAPES:
        return "it checks only the form of a reply"
    if scorers.find_scorer(scorer).of_group:
        return "it compares the replies of a group"
    return (
        "it calls a model, so guesses would cost money" if scorers.find_scorer(scorer).asks else ""
    )


def list_unguessed_tasks(
    taskset: Taskset, policy: Policy, force: bool, limit: int | None
) -> list[int]:
    """Return the ids of the tasks that this policy has not guessed yet; with `again`, of all.

    Tasks of several turns are not guessed.
    """
    tasks = taskset.tasks.filter(follow_ups=[]).order_by("index")
    if not force:
        tasks = tasks.exclude(guesses__policy=policy)
    return list(tasks.values_list("pk", flat=True)[:limit])


def save_guesses(guesses: Sequence[Guess]) -> None:
    """Save guesses; a newer check replaces an older one."""
    for guess in guesses:
        guess.at = Now()
    Guess.objects.bulk_create(
        guesses,
        update_conflicts=True,
        unique_fields=["task", "policy"],
        update_fields=["scorer", "tries", "right", "example", "at"],
    )


def without_guessed(taskset: Taskset, policy: Policy, origin: Origin) -> Taskset:
    """Create a taskset without the tasks that this policy guessed.

    Raises ValueError if none is left or the set shows pictures.
    """
    if taskset.shows_pictures:
        raise ValueError("tasks with pictures can’t be copied; exclude them on the page of a run")
    unguessed = taskset.tasks.exclude(
        guesses__in=Guess.objects.filter(policy=policy, right__gt=0)
    ).order_by("index")
    rows = (
        TaskRow(task.prompt, task.answer, task.meta, follow_ups=task.follow_ups, domain=task.domain)
        for task in unguessed.iterator()
    )
    return store_taskset(origin, rows)
