"""What a run over pictures, or of a policy that sees them, cannot do: each by field, before it starts."""

from collections.abc import Iterator, Sequence

from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.tasksets.models import Taskset

Problems = Iterator[tuple[str, str]]


def problems_of(plan: RunConfig, policy: Policy, tasksets: Sequence[Taskset]) -> dict[str, str]:
    """By dotted field; empty when the run can be made."""
    found = dict(_of_a_policy_that_sees(plan)) if policy.sees_pictures else {}
    shows = next((taskset for taskset in tasksets if taskset.shows_pictures), None)
    return found | (dict(_of_tasks_that_show(plan, policy, shows)) if shows else {})


def _of_a_policy_that_sees(plan: RunConfig) -> Problems:
    if plan.lora is not None:
        yield "lora", "adapters of a policy that sees pictures are not trained here: leave it empty, and all weights are"
    if plan.algorithm.learns_from_lessons:
        yield (
            "algorithm.name",
            f"`{plan.algorithm.name}` learns from lessons, which a policy that sees pictures cannot here: take one of text alone",
        )


def _of_tasks_that_show(plan: RunConfig, policy: Policy, taskset: Taskset) -> Problems:
    if not policy.sees_pictures:
        yield (
            "policy",
            f"{policy.slug!r} ({policy.architecture}) reads text alone, and tasks of {taskset.slug!r} show pictures: take a policy "
            "that sees pictures, or a taskset of text",
        )
    if plan.expert_rows_per_step:
        yield (
            "algorithm.expert",
            f"tasks of {taskset.slug!r} show pictures, and experts' answers to such are not learned from: set ratio to 0",
        )
    if plan.people.rater_model is not None:
        yield "people.rater_model", f"tasks of {taskset.slug!r} show pictures, and the rater model reads text alone: leave it empty"
