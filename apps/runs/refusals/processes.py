"""What trainer processes cannot share, by field with what to change."""

from collections.abc import Iterator

from apps.policies.models import Policy
from apps.runs.config import RunConfig

# Algorithms whose lessons stay whole: no empty ones fill the part of a process.
SHARED_EQUALLY = ("dpo", "kto", "reward_model")


def refusals_of_processes(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield what cannot be shared among processes, by field with what to change."""
    trainer = plan.trainer
    rows = plan.rows_per_step
    if trainer.processes == 1:
        if trainer.sharding != "ddp":
            yield (
                "trainer.sharding",
                (
                    f"is {trainer.sharding}, but one process cannot share weights: set "
                    "trainer.processes to 2 or more, or remove it"
                ),
            )
        return
    if trainer.processes > rows:
        yield (
            "trainer.processes",
            (
                f"is {trainer.processes}, more than the {rows} rows of a step: set it to {rows} or "
                "less, or increase the rows per step"
            ),
        )
    elif plan.algorithm.name in SHARED_EQUALLY and rows % trainer.processes:
        yield (
            "trainer.processes",
            (
                f"is {trainer.processes}, but the {rows} lessons of a step cannot be divided "
                "equally among that many: choose a divisor of snapshot.rows"
            ),
        )
    if trainer.sharding == "fsdp2" and plan.precision.trainer == "float16":
        yield (
            "precision.trainer",
            (
                "is float16, which needs loss scaling by all gradients, but with fsdp2 each "
                "process sees only a part of them: use bfloat16 or float32, or `trainer.sharding: "
                "ddp`"
            ),
        )


def find_process_problems(plan: RunConfig, policy: Policy) -> dict[str, str]:
    """Return why this policy cannot be trained so, by dotted field; empty if it can."""
    if plan.trainer.sharding == "fsdp2" and policy.sees_pictures:
        words = f"fsdp2 shards only text layers, but {policy.slug!r} sees pictures: use ddp"
        return {"trainer.sharding": words}
    return {}
