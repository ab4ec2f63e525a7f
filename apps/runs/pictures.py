"""Limits of runs with pictures, or with policies that see them, by field.

They are checked before the run starts.
"""

from collections.abc import Iterator, Sequence

from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.tasksets.models import Taskset

Problems = Iterator[tuple[str, str]]


def find_picture_problems(
    plan: RunConfig, policy: Policy, tasksets: Sequence[Taskset]
) -> dict[str, str]:
    """Return what rules the run out, by dotted field; empty if it can be made."""
    problems = dict(_problems_of_vision_policy(plan)) if policy.sees_pictures else {}
    shows = next((taskset for taskset in tasksets if taskset.shows_pictures), None)
    return problems | (dict(_problems_of_picture_tasks(plan, policy, shows)) if shows else {})


def _problems_of_vision_policy(plan: RunConfig) -> Problems:
    if plan.lora is not None:
        yield (
            "lora",
            (
                "adapters are not supported for policies that see pictures: leave it empty to "
                "train all weights"
            ),
        )
    if plan.algorithm.learns_from_lessons:
        yield (
            "algorithm.name",
            (
                f"`{plan.algorithm.name}` trains on lessons, which is not supported for policies "
                "that see pictures: take one of text alone"
            ),
        )


def _problems_of_picture_tasks(plan: RunConfig, policy: Policy, taskset: Taskset) -> Problems:
    if not policy.sees_pictures:
        yield (
            "policy",
            (
                f"{policy.slug!r} ({policy.architecture}) reads only text, but tasks of "
                f"{taskset.slug!r} show pictures: use a policy that sees pictures, or a taskset "
                "without pictures"
            ),
        )
    if plan.expert_rows_per_step:
        yield (
            "algorithm.expert",
            (
                f"tasks of {taskset.slug!r} show pictures, and expert rows are not supported for "
                "such tasks: set ratio to 0"
            ),
        )
    if plan.people.rater_model is not None:
        yield (
            "people.rater_model",
            (
                f"tasks of {taskset.slug!r} show pictures, but the rater model reads only text: "
                "leave it empty"
            ),
        )
