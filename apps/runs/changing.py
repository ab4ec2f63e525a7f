"""Which knobs may be turned on a run that has begun: those that every station reads from the run's row when they matter.

All others are built into its trainer, its engines or the arithmetic of its versions: a change would be shown and
would not happen.
"""

from apps.runs.config import ConfigError, RunConfig, parse

LIVE = ("people", "rewards", "max_staleness", "group_attempts", "sampling.max_tokens", "checkpoints.every", "checkpoints.weights")
# A run's policy and taskset are rows it refers to.
FIXED = ("policy", "taskset")
AGAIN = "stop this run and create another one with the changed configuration"


def changed(before: RunConfig, fields: dict[str, object], has_begun: bool) -> RunConfig:
    """The configuration with these fields replaced; a section given as a dict keeps its other fields.

    Raises ConfigError for a wrong value, and naming every field that such a run cannot take up any more.
    """
    known = before.model_dump(mode="json")
    after = parse({**known, **{name: _merged(known.get(name), value) for name, value in fields.items()}})
    was, becomes = flat(known), flat(after.model_dump(mode="json"))
    problems = {
        name: reason for name in becomes if becomes[name] != was[name] and (reason := _why_not(name, before, after, has_begun))
    }
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
    return {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _why_not(field: str, before: RunConfig, after: RunConfig, has_begun: bool) -> str:
    if not has_begun:
        return f"is fixed when a run is created; {AGAIN}" if field in FIXED else ""
    if not any(field == live or field.startswith(f"{live}.") for live in LIVE):
        return f"cannot change once a run has begun; {AGAIN}"
    if field == "rewards" and _scorers(before) != _scorers(after):
        return f"may change its weights, not its scorers: what was judged already has no reward of another one; {AGAIN}"
    if field == "sampling.max_tokens" and before.algorithm.loss == "dr_grpo":
        return f"cannot change once a run has begun whose loss, dr_grpo, divides by it; {AGAIN}"
    return ""


def _scorers(plan: RunConfig) -> set[str]:
    return {choice.scorer for choice in plan.rewards}
