"""Refuse low-rank adapters that a run's policy has no layers for, before the run starts."""

from apps.policies.layers import adaptable_layers, missing_targets, short_names
from apps.policies.models import Policy
from apps.runs.config import RunConfig

MAX_LISTED_NAMES = 30


def find_lora_problems(plan: RunConfig, policy: Policy) -> dict[str, str]:
    """Return which LoRA targets the policy lacks, by dotted field; empty if all are there."""
    layers = adaptable_layers(policy.folder) if plan.lora else None
    if plan.lora is None or layers is None:
        return {}
    missing = missing_targets(plan.lora.target_modules, layers)
    if not missing:
        return {}
    names = short_names(layers)
    available = ", ".join(names[:MAX_LISTED_NAMES]) + (
        ", …" if len(names) > MAX_LISTED_NAMES else ""
    )
    wrong = ", ".join(repr(target[:60]) for target in missing[:MAX_LISTED_NAMES])
    words = f"policy {policy.slug!r} has no layer {wrong}; it has {available or 'none'}"
    return {"lora.target_modules": words}
