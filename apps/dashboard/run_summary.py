"""Describe a new run in one line: what learns what, how much, and who judges."""

from apps.runs.algorithms.table import TABLE
from apps.runs.config import RunConfig


def summarize_run(plan: RunConfig) -> str:
    """Return the line, such as `GRPO with smollm2 on sums · 200 steps of 16 × 8 replies · math`."""
    parts = (_method(plan), _amount(plan), _judges(plan))
    return " · ".join(part for part in parts if part)


def _method(plan: RunConfig) -> str:
    method = "Evaluation" if plan.evaluation else TABLE[plan.algorithm.name].title
    tasksets = plan.taskset or ", ".join(plan.tasksets)
    return f"{method} with {plan.policy}{f' on {tasksets}' if tasksets else ''}"


def _amount(plan: RunConfig) -> str:
    if plan.evaluation:
        return _count_phrase(plan.group_size, "reply", "replies") + " per task"
    steps = _count_phrase(plan.steps, "step", "steps")
    if not plan.samples:
        return steps
    return f"{steps} of {plan.groups_per_step:,} × {plan.group_size:,} replies"


def _count_phrase(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _judges(plan: RunConfig) -> str:
    judges = [choice.scorer for choice in plan.rewards]
    if plan.environment:
        judges.append(f"environment {plan.environment.name}")
    if plan.people.per_group:
        judges.append("simulated rater" if plan.people.simulated else "people")
    return f"judged by {', '.join(judges)}" if judges else ""
