"""Task difficulty for a policy: the share of wrong answers among several tries (Kimi k1.5)."""

from collections.abc import Callable

from apps.feedback.suspicions.guesses import GuessCheck
from apps.policies.models import Policy
from apps.tasksets.models import DifficultyScale
from apps.tasksets.scales import save_values, without_number
from workers.guessing.guesses import try_tasks


def estimate(
    scale: DifficultyScale,
    policy: Policy,
    check: GuessCheck,
    engine: str = "auto",
    most: int | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Add the tasks that have no number to the scale: 1 − the share of right tries.

    Returns how many could not be judged. Results are written as they come: an interrupted estimate
    resumes there. Calls `tell(tasks done, of how many)` after each batch. Raises EngineDied and
    DamagedWeights.
    """
    tasks = without_number(scale, most)
    unjudged = 0
    for lot in try_tasks(tasks, policy, check, engine, lambda done: tell(done, len(tasks))):
        save_values(
            scale, {one.task.pk: 1.0 - sum(one.right) / len(one.right) for one in lot.judged}
        )
        unjudged += lot.size - len(lot.judged)
    return unjudged
