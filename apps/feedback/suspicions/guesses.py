"""Which tasks are checked for easy guesses, by which scorers, and what was found (Kimi k1.5, section 2.1)."""

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
from apps.tasksets.storing import Origin, store

MOST_SAID = 300
INSTRUCTION = "Give the final answer alone, at once: no reasoning, no explanation."


@dataclass(frozen=True)
class Check:
    """What is asked of each task. `judges`: a guess is right where all of them that judge its domain give all they can."""

    judges: Sequence[ScorerChoice]
    tries: int = TRIES
    max_tokens: int = 32
    temperature: float = 1.0
    instruction: str = INSTRUCTION
    seed: int = 0
    thinks: bool = False  # it may think before it answers

    def judges_of(self, task: Task) -> list[ScorerChoice]:
        """Those that the task names, whatever their domains; where it names none, those of its domain."""
        domain, own = task.kind
        return [one for one in self.judges if (one.scorer in own if own else not one.domains or domain in one.domains)]


@dataclass(frozen=True)
class Tally:
    """`easy`: guessed right at least once; `unjudged`: no scorer could say anything of its guesses, or it could not be asked."""

    checked: int = 0
    easy: int = 0
    unjudged: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.checked + other.checked, self.easy + other.easy, self.unjudged + other.unjudged)


def judges_of(plan: RunConfig) -> list[ScorerChoice]:
    """The run's rules for what is right: not those of shape, nor those that compare a group, ask or are learned."""
    return [choice for choice in plan.rewards if why_not(choice.scorer) == ""]


def why_not(scorer: str) -> str:
    """Why a scorer cannot say whether a guess is right; empty where it can."""
    if learned.is_learned(scorer):
        return "it is learned, and has no full value"
    if scorer not in scorers.names():
        return "there is no such scorer"
    if scorer in SHAPES:
        return "it looks at the shape of a reply alone"
    if scorers.find(scorer).of_group:
        return "it compares the replies of a group"
    return "it asks a model: a guess would be paid for" if scorers.find(scorer).asks else ""


def unchecked(taskset: Taskset, policy: Policy, again: bool, most: int | None) -> list[int]:
    """Ids of the tasks that this policy has not guessed yet, or of all; tasks of several turns are not guessed."""
    tasks = taskset.tasks.filter(follow_ups=[]).order_by("index")
    if not again:
        tasks = tasks.exclude(guesses__policy=policy)
    return list(tasks.values_list("pk", flat=True)[:most])


def keep(guesses: Sequence[Guess]) -> None:
    """Write what was found; a newer check replaces an older one."""
    for guess in guesses:
        guess.at = Now()
    Guess.objects.bulk_create(
        guesses, update_conflicts=True, unique_fields=["task", "policy"], update_fields=["scorer", "tries", "right", "said", "at"]
    )


def without_guessed(taskset: Taskset, policy: Policy, origin: Origin) -> Taskset:
    """A new taskset without the tasks that this policy guessed. Raises ValueError when none is left or the set shows pictures."""
    if taskset.shows_pictures:
        raise ValueError("tasks that show pictures are not copied; leave them out of a run, on its page")
    left = taskset.tasks.exclude(guesses__in=Guess.objects.filter(policy=policy, right__gt=0)).order_by("index")
    rows = (
        TaskRow(task.prompt, task.answer, task.meta, follow_ups=task.follow_ups, domain=task.domain) for task in left.iterator()
    )
    return store(origin, rows)
