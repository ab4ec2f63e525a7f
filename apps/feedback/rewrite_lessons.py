"""Save lessons from a rewrite: a demonstration, and a preference over the policy's reply."""

from apps.accounts.models import User
from apps.feedback.models.lessons import Demonstration, Lesson, Preference
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.models import Run


def keep_rewrite(user: User, run: Run, group: Group, rollout_id: int, text: str) -> None:
    """Save a demonstration, and a preference over the original if the two differ.

    A repeat changes nothing.
    """
    original = Rollout.objects.values_list("text", flat=True).get(pk=rollout_id)
    common = {
        "project_id": run.project_id,
        "task_id": group.task_id,
        "run": run,
        "prompt": group.task.prompt,
        "author": user,
        "source": f"rewrite of rollout {rollout_id}",
    }
    lessons: list[Lesson] = [Demonstration(**common, answer=text).keyed()]
    if original.strip() and original != text:
        lessons.append(
            Preference(
                **common, chosen=text, rejected=original, rejected_rollout_id=rollout_id
            ).keyed()
        )
    for lesson in lessons:
        type(lesson).objects.bulk_create([lesson], ignore_conflicts=True)


def policy_turns(rollout: Rollout) -> int:
    """Return how many policy turns are shown, including those that a person typed or edited."""
    return len(said_by_policy(rollout.text, rollout.turns))
