"""Which knobs may be turned on a run that has begun: those that every station reads from the run's row when they matter.

All others are built into its trainer, its engines or the arithmetic of its versions: a change would be shown and
would not happen.
"""

from apps.runs.config import ConfigError, RunConfig, parse

LIVE = (
    "people", "rewards", "pipeline", "max_staleness", "over_rollout", "group_attempts", "sampling.max_tokens", "sampling.time_s",
    "checkpoints.every", "checkpoints.weights", "hacking", "selection", "serve.over_bound", "serve.idle_s", "serve.feedback_s",
    "serve.settle_s", "retention", "evaluations", "alerts", "budget",
)  # fmt: skip
# A run's policy and tasksets are rows it refers to, and what it replays is decided with them.
FIXED = ("policy", "taskset", "tasksets", "replay", "evaluation")
AGAIN = "stop this run and create another one with the changed configuration"


def changed(before: RunConfig, fields: dict[str, object], has_begun: bool) -> RunConfig:
    """The configuration with these fields replaced; a section given as a dict keeps its other fields.

    Raises ConfigError for a wrong value, and naming every field that such a run cannot take up any more.
    """
    known = before.model_dump(mode="json")
    after = parse({**known, **{name: _merged(known.get(name), value) for name, value in fields.items()}})
    was, becomes = flat(known), flat(after.model_dump(mode="json"))
    # A section of another kind has other fields; one that is new or gone has changed.
    turned = [name for name in {**was, **becomes} if name not in was or name not in becomes or becomes[name] != was[name]]
    problems = {name: reason for name in turned if (reason := _why_not(name, before, after, has_begun))}
    if problems:
        raise ConfigError(problems)
    return after


def flat(sections: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Values by dotted field: {"people": {"per_group": 2}} → {"people.per_group": 2}."""
    found: dict[str, object] = {}
    for name, value in sections.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _merged(known: object, value: object) -> object:
    """A section's fields with the given ones over them; one of another name (an algorithm, a loss) starts from its defaults."""
    if not isinstance(known, dict) or not isinstance(value, dict) or value.get("name", known.get("name")) != known.get("name"):
        return value
    return {**known, **{field: _merged(known.get(field), given) for field, given in value.items()}}


def _why_not(field: str, before: RunConfig, after: RunConfig, has_begun: bool) -> str:
    if not has_begun:
        return f"is fixed when a run is created; {AGAIN}" if field.split(".")[0] in FIXED else ""
    if not any(field == live or field.startswith(f"{live}.") for live in LIVE):
        return f"cannot change once a run has begun; {AGAIN}"
    if field == "rewards" and _scorers(before) != _scorers(after):
        return f"may change its weights and `trust`, not its scorers: what was judged already has no reward of another one; {AGAIN}"
    if field == "sampling.max_tokens" and before.algorithm.aggregation == "seq-mean-token-sum-norm":
        return f"cannot change once a run has begun whose aggregation, seq-mean-token-sum-norm, divides by it; {AGAIN}"
    return ""


def _scorers(plan: RunConfig) -> list[dict]:
    kept = (choice.model_dump(exclude={"weight", "trust"}) for choice in plan.rewards)
    return sorted(kept, key=lambda choice: choice["scorer"])
