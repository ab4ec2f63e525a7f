"""How hard tasks are for a policy: the share of several tries that is wrong is a task's difficulty (Kimi k1.5)."""

from collections.abc import Callable

from apps.feedback.suspicions.guesses import Check
from apps.policies.models import Policy
from apps.tasksets.models import DifficultyScale
from apps.tasksets.scales import keep, without_number
from workers.guessing.guesses import tried


def estimate(
    scale: DifficultyScale,
    policy: Policy,
    check: Check,
    engine: str = "auto",
    most: int | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Put tasks without a number on the scale: 1 − the share of tries that were right. Returns how many could not be judged.

    What is written stays: an estimate that broke off goes on there. `tell(tasks done, of how many)` after each lot.
    Raises EngineDied, DamagedWeights.
    """
    tasks, unjudged = without_number(scale, most), 0
    for lot in tried(tasks, policy, check, engine, lambda done: tell(done, len(tasks))):
        keep(scale, {one.task.pk: 1.0 - sum(one.right) / len(one.right) for one in lot.judged})
        unjudged += lot.asked - len(lot.judged)
    return unjudged
