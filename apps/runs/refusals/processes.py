"""What trainer processes cannot share, by field with what to change."""

from collections.abc import Iterator

from apps.policies.models import Policy
from apps.runs.config import RunConfig

# Algorithms whose lessons stay whole: no empty ones fill the part of a process.
SHARED_EQUALLY = ("dpo", "kto", "reward_model")


def refusals_of_processes(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield what cannot be shared among processes, by field with what to change."""
    wanted = plan.trainer
    rows = plan.rows_per_step
    if wanted.processes == 1:
        if wanted.sharding != "ddp":
            yield (
                "trainer.sharding",
                (
                    f"is {wanted.sharding}, but one process cannot share weights: set "
                    "trainer.processes to 2 or more, or remove it"
                ),
            )
        return
    if wanted.processes > rows:
        yield (
            "trainer.processes",
            (
                f"is {wanted.processes}, more than the {rows} rows of a step: set it to {rows} or "
                "less, or increase the rows per step"
            ),
        )
    elif plan.algorithm.name in SHARED_EQUALLY and rows % wanted.processes:
        yield (
            "trainer.processes",
            (
                f"is {wanted.processes}, but the {rows} lessons of a step cannot be divided "
                "equally among that many: choose a divisor of snapshot.rows"
            ),
        )
    if wanted.sharding == "fsdp2" and plan.precision.trainer == "float16":
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
