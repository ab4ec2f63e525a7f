"""Settings that mean nothing to an evaluation, by field with what to change."""

from collections.abc import Iterator

from apps.runs.config import RunConfig

# What is of no use to a run that learns nothing and draws each task once.
LEARNING_FIELDS = (
    "tasksets",
    "groups_per_step",
    "max_staleness",
    "over_rollout",
    "sync_interval",
    "task_attempts",
    "selection",
    "serve",
    "length_penalty",
    "pipeline",
    "reading",
    "algorithm",
    "snapshot",
    "replay",
    "lora",
    "tower",
    "hacking",
    "optimizer",
    "checkpoints",
    "evaluations",
    "trainer",
)


def refusals_of_evaluation(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield knobs that mean nothing to an evaluation, each by field with what to change."""
    if plan.steps:
        yield "steps", f"is {plan.steps}, but an evaluation trains nothing: set it to 0"
    evaluation = plan.evaluation
    if evaluation and evaluation.version and not evaluation.run:
        yield (
            "evaluation.version",
            f"is {evaluation.version}: name the run that has it under `evaluation.run`",
        )
    for name in LEARNING_FIELDS:
        if getattr(plan, name) != type(plan).model_fields[name].get_default():
            yield (
                name,
                (
                    "does not apply to an evaluation, which trains nothing and samples each task "
                    "once: remove it"
                ),
            )
    for name in ("rater_model", "schedule"):
        if getattr(plan.people, name) is not None:
            yield (
                f"people.{name}",
                (
                    "is for runs that train: an evaluation asks people about every group or about "
                    "none; remove it"
                ),
            )
