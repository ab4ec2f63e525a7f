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
    limit: int | None = None,
    tell: Callable[[int, int], None] = lambda count, of: None,
) -> int:
    """Add the tasks that have no number to the scale: 1 − the share of right tries.

    Returns how many could not be judged. Results are written as they come: an interrupted estimate
    resumes there. Calls `tell(tasks done, of how many)` after each batch. Raises EngineDied and
    DamagedWeights.
    """
    tasks = without_number(scale, limit)
    unjudged = 0
    for lot in try_tasks(tasks, policy, check, engine, lambda count: tell(count, len(tasks))):
        save_values(
            scale,
            {trial.task.pk: 1.0 - sum(trial.right) / len(trial.right) for trial in lot.judged},
        )
        unjudged += lot.size - len(lot.judged)
    return unjudged
