"""Which knobs may be turned on a run that has begun: those that every station reads from the run's row when they matter.

All others are built into its trainer, its engines or the arithmetic of its versions: a change would be shown and
would not happen.
"""

from collections.abc import Sequence
from operator import attrgetter

from apps.runs.config import ConfigError, RunConfig, parse

# What each update is made with: recorded with its step, so that one that is made again after a crash is the same.
UPDATES = (
    "optimizer.learning_rate", "sampling.temperature", "algorithm.kl.coefficient", "algorithm.kl.target", "algorithm.kl.horizon",
)  # fmt: skip
LIVE = (
    *UPDATES, "people", "rewards", "pipeline", "max_staleness", "over_rollout", "group_attempts", "sampling.max_tokens",
    "sampling.time_s", "checkpoints.every", "checkpoints.weights", "checkpoints.milestones", "hacking", "selection",
    "serve.over_bound", "serve.idle_s", "serve.feedback_s", "serve.settle_s", "retention", "evaluations", "alerts", "budget",
)  # fmt: skip
# What of these does not change the question that an evaluation asks of all its tasks alike.
OF_EVALUATIONS = ("people.deadline_s", "group_attempts", "retention", "alerts", "budget")
ONE_QUESTION = "all tasks of an evaluation are asked alike"
# A run's policy and tasksets are rows it refers to, and what it replays is decided with them.
FIXED = ("policy", "taskset", "tasksets", "replay", "evaluation")
AGAIN = "stop this run and create another one with the changed configuration"
COLDEST = 0.01  # vLLM takes anything below for this, without an error


# Why the others cannot be turned, by field or by section.
BUILT_IN = {
    "algorithm": "the loss and the advantages are built into its trainer",
    "optimizer": "is built into its optimizer, with what that has gathered",
    "engine": "is chosen when its first engine starts",
    "precision": "its engine and its trainer are built in it",
    "sampling": "its rollouts on the way are cut by it",
    "checkpoints": "its trainer keeps them by it",
    "group_size": "all its groups are of one size, for sums over a batch are",
    "groups_per_step": "the arithmetic of its versions counts with it",
    "sync_interval": "the arithmetic of its versions counts with it",
    "steps": "its trainer's plan has an end",
    "seed": "its draws, samples and shuffles go on from it",
    "lora": "says which weights are trained",
    "tower": "says which weights are trained",
    "environment": "its episodes under way are played in it",
    "reading": "which groups are taken is counted from its first step on",
    "snapshot": "is frozen when it starts",
    **dict.fromkeys(FIXED, "refers to what the run was created with"),
}


def knobs_of_update(plan: RunConfig) -> dict[str, float | None]:
    """What an update planned now is made with, by dotted field."""
    return {name: attrgetter(name)(plan) for name in UPDATES}


def is_live(field: str, among: Sequence[str] = LIVE) -> bool:
    """Whether a run that has begun may still change it, going by its name alone."""
    return any(field == live or field.startswith(f"{live}.") for live in among)


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


def why_fixed(field: str, plan: RunConfig, has_begun: bool, has_ended: bool = False) -> str:
    """Why a field of such a run cannot be turned, whatever to; "" where it can."""
    if has_ended:
        return "the run has ended"
    section = field.partition(".")[0]
    if not has_begun:
        return "refers to what the run was created with" if section in FIXED else ""
    if plan.evaluation and not is_live(field, OF_EVALUATIONS):
        return ONE_QUESTION
    if field in UPDATES[1:] and plan.algorithm.learns_from_lessons:
        return "the run learns from lessons and samples nothing"
    if field.startswith("algorithm.kl.") and plan.algorithm.kl.estimator == "none":
        return "nothing is measured: algorithm.kl.estimator is none"
    return "" if is_live(field) else BUILT_IN.get(field) or BUILT_IN.get(section, "is built into what has begun")


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
    if not is_live(field):
        return f"cannot change once a run has begun; {AGAIN}"
    if before.evaluation and not is_live(field, OF_EVALUATIONS):
        return f"cannot change: {ONE_QUESTION}; stop this one and ask anew"
    if field == "rewards" and _scorers(before) != _scorers(after):
        return f"may change its weights and `trust`, not its scorers: what was judged already has no reward of another one; {AGAIN}"
    if field in UPDATES[1:] and before.algorithm.learns_from_lessons:
        return f"cannot change once a run has begun that learns from lessons: it samples nothing; {AGAIN}"
    if field == "sampling.temperature" and after.sampling.temperature < COLDEST and after.engine != "transformers":
        return f"must be {COLDEST} or more: vLLM takes anything below for that"
    if field == "sampling.max_tokens" and before.algorithm.aggregation == "seq-mean-token-sum-norm":
        return f"cannot change once a run has begun whose aggregation, seq-mean-token-sum-norm, divides by it; {AGAIN}"
    return ""


def _scorers(plan: RunConfig) -> list[dict]:
    kept = (choice.model_dump(exclude={"weight", "trust"}) for choice in plan.rewards)
    return sorted(kept, key=lambda choice: choice["scorer"])
