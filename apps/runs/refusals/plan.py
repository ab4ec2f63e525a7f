"""Checks for combinations of settings that have no meaning, by field with what to change."""

from collections.abc import Callable, Iterator

from apps.runs.config import RunConfig
from apps.runs.plugin_fields import refusals_of_plugins
from apps.runs.refusals.algorithm import refusals_of_algorithm
from apps.runs.refusals.evaluation import refusals_of_evaluation
from apps.runs.refusals.processes import refusals_of_processes
from apps.runs.refusals.vllm import refusals_of_vllm

Refusals = Iterator[tuple[str, str]]


def refusals(plan: RunConfig) -> dict[str, str]:
    """Return problems of the plan as a whole, by dotted field; empty if it can run."""
    problems: dict[str, str] = {}
    for rule in RULES_OF_EVALUATION if plan.evaluation else RULES:
        for field, words in rule(plan):
            problems.setdefault(field, words)
    return problems


def _tasksets(plan: RunConfig) -> Refusals:
    """Yield a refusal unless the run names one taskset, or several with their shares."""
    if plan.taskset is None and not plan.tasksets:
        yield (
            "taskset",
            "name a taskset to sample from, or several with their shares under `tasksets`",
        )
    if plan.taskset is not None and plan.tasksets:
        yield (
            "tasksets",
            (
                "cannot be combined with `taskset`: name one taskset there, or several with their "
                "shares here"
            ),
        )
    if not plan.tasksets:
        return
    if len(plan.tasksets) == 1:
        yield "tasksets", f"has only one taskset: use `taskset: {next(iter(plan.tasksets))}`"
    if plan.serve or plan.algorithm.learns_from_lessons:
        yield (
            "tasksets",
            (
                "share the sampled tasks, but this run samples none: name one taskset under"
                " `taskset`"
            ),
        )
    if plan.selection.name == "mixture":
        yield (
            "selection.name",
            (
                "`mixture` divides one taskset by domain, and `tasksets` already divide the "
                "sampled tasks: choose another rule"
            ),
        )


def _steps(plan: RunConfig) -> Refusals:
    if not plan.steps:
        yield "steps", "is 0, which is only for an `evaluation`: plan 1 step or more"


def _group(plan: RunConfig) -> Refusals:
    """Yield a refusal if a group is too small for an advantage that compares its rollouts."""
    advantage = plan.algorithm.advantage
    if (
        not plan.algorithm.learns_from_lessons
        and not plan.serve
        and plan.group_size < advantage.min_rewards
    ):
        yield (
            "group_size",
            (
                f"is {plan.group_size}, but the advantage `{advantage.name}` compares the rollouts"
                f" of a group: set it to {advantage.min_rewards} or more, or choose "
                "`algorithm.name: reinforce_plus_plus`"
            ),
        )
    keep = getattr(advantage, "keep", 0)
    if keep > plan.group_size:
        yield (
            "algorithm.advantage.keep",
            f"is {keep}, more than group_size {plan.group_size}: keep at most that many",
        )
    if getattr(advantage, "baseline", "none") == "group" and plan.group_size < 2:
        yield (
            "algorithm.advantage.baseline",
            "`group` needs a group_size of 2 or more; use `baseline: none`",
        )


def _batch(plan: RunConfig) -> Refusals:
    """Yield a refusal if statistics of the step are wanted, but it has only one group."""
    advantage = plan.algorithm.advantage
    if getattr(advantage, "scale", "") == "batch" and plan.groups_per_step == 1:
        yield (
            "algorithm.advantage.scale",
            (
                "`batch` equals `group` if a step has one group: set `scale: group`, or "
                "groups_per_step to 2 or more"
            ),
        )
    if not plan.algorithm.learns_from_lessons and plan.usual_rows_per_step < 2:
        yield (
            "groups_per_step",
            (
                f"is {plan.groups_per_step}, which leaves only one of the run's own rows in a "
                "step: set it to 2 or more"
            ),
        )


def _scorers(plan: RunConfig) -> Refusals:
    if plan.algorithm.advantage.name == "gdpo":
        if len(plan.judges) < 2:
            yield (
                "rewards",
                (
                    "`gdpo` normalises each scorer's reward by itself and needs two or more; "
                    "add a scorer, or choose `algorithm.name: grpo`"
                ),
            )
        if any(choice.domains for choice in plan.rewards):
            yield (
                "rewards",
                (
                    "`gdpo` needs a reward from every scorer on every task: remove `domains`, or "
                    "choose `algorithm.name: grpo`"
                ),
            )
        if plan.people.per_group:
            yield (
                "people.per_group",
                (
                    "`gdpo` cannot split a person's rating into parts; set it to 0, or choose "
                    "`algorithm.name: ranking`"
                ),
            )


def _environment(plan: RunConfig) -> Refusals:
    """Yield what an environment rules out.

    Raters and records cannot know in advance what an environment answers, nor the most it can give.
    """
    environment = plan.environment
    if environment is None:
        return
    if environment.name in {choice.scorer for choice in plan.rewards}:
        yield (
            "rewards",
            (
                f"contains `{environment.name}`, the name of the environment, whose reward is "
                "included already; remove the scorer"
            ),
        )
    if plan.people.per_group:
        yield (
            "people.per_group",
            (
                "raters do not see the first observation of an environment: set it to 0, or remove "
                "`environment`"
            ),
        )
    if plan.replay:
        yield "environment", "does not apply to a run that replays another run's data: remove it"
    if plan.length_penalty:
        yield (
            "length_penalty",
            (
                "needs the maximum reward of a rollout, which an environment does not provide: "
                "remove it"
            ),
        )


def _serve(plan: RunConfig) -> Refusals:
    """Yield what rules out serving: callers ask each prompt once, so there are no groups."""
    if plan.serve is None:
        return
    advantage = plan.algorithm.advantage
    if plan.environment is None:
        yield (
            "environment",
            "callers act as the environment: add `environment: {name: agent}`, or remove `serve`",
        )
    elif plan.environment.reward_s is not None:
        yield (
            "environment.reward_s",
            "is set by `serve.feedback_s` in a run that serves: remove it",
        )
    if plan.selection.name != "shuffle":
        yield (
            "selection.name",
            (
                f"is {plan.selection.name}, but callers send the prompts and no tasks are sampled: "
                "remove `selection`"
            ),
        )
    if plan.group_size != 1:
        yield (
            "group_size",
            f"is {plan.group_size}, but each caller's prompt gets one reply: set it to 1",
        )
    if advantage.min_rewards > 1:
        yield (
            "algorithm.name",
            (
                f"the advantage `{advantage.name}` compares the rollouts of a group, but each "
                "caller's prompt gets one reply: choose one that needs no comparison, such as "
                "reinforce_plus_plus, reinforce, ppo, topr or raft"
            ),
        )


def _repeats(plan: RunConfig) -> Refusals:
    if plan.sampling.repeats and plan.environment is not None:
        yield (
            "sampling.repeats",
            (
                "ends a reply early, but an environment needs each reply as a complete action: "
                "remove it"
            ),
        )
    if plan.sampling.repeats and not plan.samples:
        yield "sampling.repeats", "does not apply to a run that samples nothing itself: remove it"


def _slices(plan: RunConfig) -> Refusals:
    if plan.sampling.slice_tokens and plan.environment is not None:
        yield (
            "sampling.slice_tokens",
            (
                "saves unfinished replies, but the state of an environment cannot be saved: remove "
                "it"
            ),
        )
    if plan.sampling.slice_tokens and not plan.samples:
        yield (
            "sampling.slice_tokens",
            "does not apply to a run that samples nothing itself: remove it",
        )
    if plan.sampling.older_segments != "learn" and plan.algorithm.learns_from_lessons:
        yield (
            "sampling.older_segments",
            (
                "does not apply to a run that learns from lessons, which no weight version "
                "sampled: remove it"
            ),
        )


def _time(plan: RunConfig) -> Refusals:
    if plan.sampling.time_s and plan.environment is not None:
        yield (
            "sampling.time_s",
            (
                "ends a reply early, but an environment needs each reply as a complete action: "
                "remove it; the environment has its own limits, turn_s and episode_s"
            ),
        )
    if plan.sampling.time_s and not plan.samples:
        yield "sampling.time_s", "does not apply to a run that samples nothing itself: remove it"


def _over_rollout(plan: RunConfig) -> Refusals:
    """Yield what over-rollout rules out.

    A left-over group serves a later step, so it must be young enough then, and come first.
    """
    if plan.over_rollout is None:
        return
    limit = plan.max_staleness * plan.sync_interval * plan.groups_per_step
    if not plan.samples or plan.serve:
        yield "over_rollout", "is only for runs that sample groups themselves: remove it"
    elif plan.over_rollout > limit:
        yield (
            "over_rollout",
            (
                f"is {plan.over_rollout}, but a later step can use at most {limit} groups that are "
                "left over (max_staleness × sync_interval × groups_per_step): lower it, or raise "
                "max_staleness"
            ),
        )
    elif plan.reading.order.name != "fifo":
        yield (
            "over_rollout",
            (f"needs `reading.order: fifo`, but it is {plan.reading.order.name}: remove one"),
        )
    elif plan.reading.replay.name != "none":
        yield (
            "over_rollout",
            ("and `reading.replay` would both fill steps with older groups: remove one of them"),
        )


def _reading(plan: RunConfig) -> Refusals:
    """Yield problems of the reading order and of experience replay.

    At least one group must be taken again, and no group may be too old before it can come back.
    """
    if plan.reading.order.name == "reward_variance" and plan.group_size == 1:
        yield (
            "reading.order.name",
            (
                "is reward_variance, but one rollout has no variance: raise group_size, or choose "
                "another order"
            ),
        )
    rule = plan.reading.replay
    if rule.name == "none" or plan.algorithm.learns_from_lessons:
        return
    if not plan.groups_again_per_step:
        yield (
            "reading.replay.share",
            (
                f"is {rule.share:g}, less than one of the {plan.groups_per_step} groups of a step: "
                "raise it, or groups_per_step"
            ),
        )
    # By how many versions the trainer is ahead at least: a group that the first step of its own
    # version took comes back soonest.
    soonest = (1 + rule.cool_down) // plan.sync_interval
    if soonest > plan.max_staleness and rule.cool_down:
        yield (
            "reading.replay.cool_down",
            (
                f"is {rule.cool_down}, after which every group is older than max_staleness "
                f"{plan.max_staleness}: lower it, or raise max_staleness to {soonest} or more"
            ),
        )
    elif soonest > plan.max_staleness:
        yield (
            "reading.replay.name",
            (
                "reuses groups from older weights, but max_staleness is 0: set it to 1 or more, or "
                "`replay: none`"
            ),
        )
    if rule.name == "prioritized" and plan.algorithm.has_teacher:
        yield (
            "reading.replay.name",
            (
                f"is prioritized, but `{plan.algorithm.name}` has no advantages before its teacher "
                "runs: set it to uniform"
            ),
        )


Rule = Callable[[RunConfig], Refusals]
RULES: tuple[Rule, ...] = (
    _steps,
    _tasksets,
    _serve,
    _group,
    _batch,
    _scorers,
    refusals_of_algorithm,
    _environment,
    _repeats,
    _slices,
    _time,
    _over_rollout,
    _reading,
    refusals_of_vllm,
    refusals_of_processes,
    refusals_of_plugins,
)
RULES_OF_EVALUATION: tuple[Rule, ...] = (
    _tasksets,
    refusals_of_evaluation,
    _environment,
    _repeats,
    _slices,
    _time,
    refusals_of_vllm,
)
