"""Configuration fields that may change after a run has begun.

Workers read these fields from the run's row whenever they need them. All others are built into its
trainer, its engines or the arithmetic of its versions: a change would be shown but have no effect.
"""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from apps.runs.config import ConfigError, RunConfig
from apps.runs.parsing import parse_config

# What each step is made with: recorded with its step, so that one that is made again after a
# crash is the same.
UPDATES = (
    "optimizer.learning_rate",
    "sampling.temperature",
    "algorithm.kl.coefficient",
    "algorithm.kl.target",
    "algorithm.kl.horizon",
)
# The constant by which an aggregation divides sums over tokens. Steps of older releases lack it.
WIDTH = "sampling.max_tokens"
LIVE = (
    *UPDATES,
    "people",
    "rewards",
    "pipeline",
    "max_staleness",
    "over_rollout",
    "group_attempts",
    WIDTH,
    "sampling.time_s",
    "checkpoints.every",
    "checkpoints.weights",
    "checkpoints.milestones",
    "hacking",
    "selection",
    "serve.over_bound",
    "serve.idle_s",
    "serve.feedback_s",
    "serve.settle_s",
    "retention",
    "evaluations",
    "alerts",
    "budget",
    "trainer",
)
# What of these does not change the question that an evaluation asks of all its tasks alike.
OF_EVALUATIONS = ("people.deadline_s", "group_attempts", "retention", "alerts", "budget")
ONE_QUESTION = "an evaluation must treat all of its tasks alike"
# A run's policy and tasksets are rows it refers to, and what it replays is decided with them.
FIXED = ("policy", "taskset", "tasksets", "replay", "evaluation")
AGAIN = "stop this run and create another one with the changed configuration"
COLDEST = 0.01  # vLLM takes anything below for this, without an error


# Why the others cannot be turned, by field or by section.
BUILT_IN = {
    "algorithm": "the run's trainer was built with this loss and these advantages",
    "optimizer": "the run's optimizer and its state depend on it",
    "engine": "the engine is chosen when the run starts",
    "precision": "the run's engine and trainer were built with it",
    "vllm": "the run's engine was built with it",
    "sampling": "unfinished rollouts depend on it",
    "checkpoints": "the run's trainer was built with it",
    "group_size": "all groups of a run must have the same size",
    "groups_per_step": "the numbering of the run's weight versions depends on it",
    "sync_interval": "the numbering of the run's weight versions depends on it",
    "steps": "the trainer's schedule depends on it",
    "seed": "random numbers of the run depend on it",
    "lora": "it determines which weights are trained",
    "tower": "it determines which weights are trained",
    "environment": "episodes in progress use it",
    "reading": "the use of groups is recorded from the first step on",
    "snapshot": "lessons are fixed when the run starts",
    **dict.fromkeys(FIXED, "it is fixed when a run is created"),
}


def knobs_of_update(plan: RunConfig) -> dict[str, float | None]:
    """Return the changeable settings of a step that is planned now, by dotted field."""
    return {name: attrgetter(name)(plan) for name in (*UPDATES, WIDTH)}


def is_live(field: str, among: Sequence[str] = LIVE) -> bool:
    """Tell whether a run that has begun may still change it, going by its name alone."""
    return any(field == live or field.startswith(f"{live}.") for live in among)


def changed(before: RunConfig, fields: dict[str, object], has_begun: bool) -> RunConfig:
    """Return the configuration with these fields replaced.

    A section given as a dict keeps its other fields.

    Raises ConfigError for a wrong value, and naming every field that such a run cannot take up any
    more.
    """
    current = before.model_dump(mode="json")
    after = parse_config(
        {**current, **{name: _merged(current.get(name), value) for name, value in fields.items()}}
    )
    was = flat(current)
    becomes = flat(after.model_dump(mode="json"))
    # A section of another kind has other fields; one that is new or gone has changed.
    turned = [
        name
        for name in {**was, **becomes}
        if name not in was or name not in becomes or becomes[name] != was[name]
    ]
    problems = {
        name: reason for name in turned if (reason := _why_not(name, before, after, has_begun))
    }
    if problems:
        raise ConfigError(problems)
    return after


def why_fixed(field: str, plan: RunConfig, has_begun: bool, has_ended: bool = False) -> str:
    """Return why a field of such a run cannot be changed to any value; "" if it can."""
    if has_ended:
        return "the run has ended"
    section = field.partition(".")[0]
    if not has_begun:
        return "it is fixed when a run is created" if section in FIXED else ""
    if plan.evaluation and not is_live(field, OF_EVALUATIONS):
        return ONE_QUESTION
    if field in UPDATES[1:] and plan.algorithm.learns_from_lessons:
        return "the run trains on lessons and samples nothing"
    if field.startswith("algorithm.kl.") and plan.algorithm.kl.estimator == "none":
        return "there is no KL penalty: algorithm.kl.estimator is none"
    return (
        ""
        if is_live(field)
        else BUILT_IN.get(field) or BUILT_IN.get(section, "what has already started depends on it")
    )


def flat(sections: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Return values by dotted field: {"people": {"per_group": 2}} → {"people.per_group": 2}."""
    values: dict[str, object] = {}
    for name, value in sections.items():
        values |= (
            flat(value, f"{prefix}{name}.")
            if isinstance(value, dict)
            else {f"{prefix}{name}": value}
        )
    return values


def _merged(section: object, value: object) -> object:
    """Return a section's fields with the given ones over them.

    One of another name (an algorithm, a loss) starts from its defaults.
    """
    if (
        not isinstance(section, dict)
        or not isinstance(value, dict)
        or value.get("name", section.get("name")) != section.get("name")
    ):
        return value
    return {
        **section,
        **{field: _merged(section.get(field), new_value) for field, new_value in value.items()},
    }


def _why_not(field: str, before: RunConfig, after: RunConfig, has_begun: bool) -> str:
    if not has_begun:
        return f"is fixed when a run is created; {AGAIN}" if field.split(".")[0] in FIXED else ""
    if not is_live(field):
        return f"cannot change once a run has begun; {AGAIN}"
    if before.evaluation and not is_live(field, OF_EVALUATIONS):
        return f"cannot change: {ONE_QUESTION}; stop this one and start another"
    if field == "rewards" and _scorers(before) != _scorers(after):
        return (
            "cannot change its scorers, only their weights and `trust`: finished rollouts have no "
            f"reward from a new scorer; {AGAIN}"
        )
    if field in UPDATES[1:] and before.algorithm.learns_from_lessons:
        return (
            "cannot change after the start of a run that trains on lessons: it samples nothing; "
            f"{AGAIN}"
        )
    if (
        field == "sampling.temperature"
        and after.sampling.temperature < COLDEST
        and after.engine != "transformers"
    ):
        return f"must be {COLDEST} or more: vLLM raises lower values to that"
    room = _room_of_engine(before)
    if field == "sampling.max_tokens" and after.sampling.max_tokens > room:
        return f"must be {room:,} or less, because the run's engine was built for that; {AGAIN}"
    if field == "sampling.max_tokens" and before.algorithm.aggregation == "seq-mean-token-sum-norm":
        return (
            "cannot change after the start of a run whose aggregation, seq-mean-token-sum-norm, "
            f"divides by it; {AGAIN}"
        )
    return ""


def _room_of_engine(plan: RunConfig) -> float:
    """Return the longest answer beside the longest prompt; infinite where the context is the
    limit.
    """
    if plan.vllm.max_model_len is not None:
        return plan.vllm.max_model_len - (plan.sampling.max_prompt_tokens or 1)
    return math.inf if plan.sampling.max_prompt_tokens is None else plan.sampling.max_tokens


def _scorers(plan: RunConfig) -> list[dict[str, Any]]:
    choices = (choice.model_dump(exclude={"weight", "trust"}) for choice in plan.rewards)
    return sorted(choices, key=lambda choice: choice["scorer"])
