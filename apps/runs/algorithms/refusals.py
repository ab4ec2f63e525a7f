"""Combinations of knobs that have no meaning, each by field with what to change."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from apps.runs.algorithms.snapshot import SOURCES, problem_of
from apps.runs.evaluation import refusals_of_evaluation

if TYPE_CHECKING:
    from apps.runs.config import RunConfig

Refusals = Iterator[tuple[str, str]]
# What a run that samples nothing has no use for.
SAMPLING_FIELDS = (
    "group_size", "groups_per_step", "max_staleness", "over_rollout", "selection", "rewards", "environment", "serve", "people",
    "pipeline", "reading", "replay", "retention",
)  # fmt: skip


def refusals(plan: "RunConfig") -> dict[str, str]:
    """What is wrong with the plan as a whole, by dotted field; empty when it can run."""
    found: dict[str, str] = {}
    for rule in RULES_OF_EVALUATION if plan.evaluation else RULES:
        for field, words in rule(plan):
            found.setdefault(field, words)
    return found


def _tasksets(plan: "RunConfig") -> Refusals:
    """A run names one taskset, or several with their shares."""
    if plan.taskset is None and not plan.tasksets:
        yield "taskset", "name what to draw from: a taskset, or several with their shares under `tasksets`"
    if plan.taskset is not None and plan.tasksets:
        yield "tasksets", "stands beside `taskset`: name one taskset there, or several with their shares here"
    if not plan.tasksets:
        return
    if len(plan.tasksets) == 1:
        yield "tasksets", f"is one alone: say `taskset: {next(iter(plan.tasksets))}`"
    if plan.serve or plan.algorithm.learns_from_lessons:
        yield "tasksets", "share draws, and this run draws nothing: name one under `taskset`"
    if plan.selection.name == "mixture":
        yield (
            "selection.name",
            "`mixture` shares the draws of one taskset among its domains, and `tasksets` share them already: choose another rule",
        )


def _steps(plan: "RunConfig") -> Refusals:
    if not plan.steps:
        yield "steps", "is 0, which is for an `evaluation`: plan 1 update or more"


def _group(plan: "RunConfig") -> Refusals:
    """An advantage that compares the rollouts of a group needs at least two of them."""
    advantage = plan.algorithm.advantage
    if not plan.algorithm.learns_from_lessons and not plan.serve and plan.group_size < advantage.fewest:
        yield (
            "group_size",
            f"is {plan.group_size}, but the advantage `{advantage.name}` compares the rollouts of a group: "
            f"set it to {advantage.fewest} or more, or choose `algorithm.name: reinforce_plus_plus`",
        )
    keep = getattr(advantage, "keep", 0)
    if keep > plan.group_size:
        yield "algorithm.advantage.keep", f"is {keep}, more than group_size {plan.group_size}: keep at most that many"
    if getattr(advantage, "baseline", "none") == "group" and plan.group_size < 2:
        yield "algorithm.advantage.baseline", "`group` needs a group_size of 2 or more; use `baseline: none`"


def _batch(plan: "RunConfig") -> Refusals:
    """Statistics of the update need more than one group, or they are those of the group."""
    advantage = plan.algorithm.advantage
    if getattr(advantage, "scale", "") == "batch" and plan.groups_per_step == 1:
        yield (
            "algorithm.advantage.scale",
            "`batch` is the same as `group` with one group in an update: set `scale: group`, or groups_per_step to 2 or more",
        )
    if not plan.algorithm.learns_from_lessons and plan.usual_rows_per_step < 2:
        yield "groups_per_step", f"is {plan.groups_per_step}, which leaves one row of its own to an update: set it to 2 or more"


def _scorers(plan: "RunConfig") -> Refusals:
    if plan.algorithm.advantage.name == "gdpo":
        if len(plan.judges) < 2:
            yield (
                "rewards",
                "`gdpo` normalises each scorer's reward by itself and needs two or more; "
                "add a scorer, or choose `algorithm.name: grpo`",
            )
        if any(choice.domains for choice in plan.rewards):
            yield "rewards", "`gdpo` needs every scorer's word on every task: remove `domains`, or choose `algorithm.name: grpo`"
        if plan.people.per_group:
            yield (
                "people.per_group",
                "a person's one number has no parts for `gdpo`; set it to 0, or choose `algorithm.name: ranking`",
            )


def _reference(plan: "RunConfig") -> Refusals:
    """A divergence needs something to diverge from; a teacher has to be somebody."""
    algorithm, reference = plan.algorithm, plan.algorithm.reference
    if algorithm.needs_reference and reference.kind == "none":
        why = {"dpo": "the loss compares with it", "kto": "the loss compares with it"}.get(
            algorithm.loss.name, "the KL measures against it"
        )
        yield (
            "algorithm.reference.kind",
            f"is `none`, but {why}: set it to base, version or average"
            + (", or `algorithm.kl.estimator: none`" if algorithm.kl.needs_reference else ""),
        )
    if reference.kind == "policy" and not reference.policy:
        yield (
            "algorithm.reference.policy",
            "name the policy that is the reference (or the teacher) by its slug, such as `policy: large`",
        )
    if reference.policy and reference.kind != "policy":
        yield (
            "algorithm.reference.policy",
            f"is read with `kind: policy` only, and kind is `{reference.kind}`: set the kind, or remove it",
        )
    if reference.kind == "version" and reference.version and not reference.run:
        yield (
            "algorithm.reference.version",
            f"is {reference.version}, which this run does not have before it begins: name the run that has it under "
            "`algorithm.reference.run`, or take version 0",
        )
    if reference.run and reference.kind != "version":
        yield (
            "algorithm.reference.run",
            f"is read with `kind: version` only; kind is `{reference.kind}`: set the kind, or remove it",
        )
    if algorithm.has_teacher and reference.kind not in ("policy", "version"):
        yield "algorithm.reference.kind", "a teacher is another policy: set `kind: policy` and name it under `policy`"
    if algorithm.has_teacher and algorithm.kl.needs_reference:
        yield "algorithm.kl.estimator", f"`{algorithm.name}` measures against its teacher already: set it to none"


def _kl(plan: "RunConfig") -> Refusals:
    kl = plan.algorithm.kl
    if plan.algorithm.learns_from_lessons and kl.needs_reference:
        yield (
            "algorithm.kl.estimator",
            f"`{plan.algorithm.name}` samples nothing whose divergence could be measured: set it to none",
        )
    elif kl.where == "reward" and kl.needs_reference and plan.algorithm.loss.name in ("sft", "sft_is", "sft_phi"):
        yield (
            "algorithm.kl.where",
            f"the loss `{plan.algorithm.loss.name}` reads no advantage that could be charged: set it to loss",
        )


def _experts(plan: "RunConfig") -> Refusals:
    expert = plan.algorithm.expert
    weight = max(expert.schedule.peak, expert.schedule.valley) if expert.schedule else expert.mu
    if plan.algorithm.learns_from_lessons:
        if expert.is_used or weight:
            yield "algorithm.expert.ratio", f"`{plan.algorithm.name}` has no rows of its own to mix experts with: remove `expert`"
    elif weight and not expert.is_used:
        yield (
            "algorithm.expert.ratio",
            "is 0 while mu weighs an expert loss: set the share of expert rows, such as 0.2, or `mu: 0` without a schedule",
        )
    elif expert.is_used and not weight:
        yield "algorithm.expert.mu", "is 0, so expert rows would teach nothing: set it above 0, such as 0.1, or `ratio: 0`"
    elif expert.is_used and expert.source is None:
        yield "algorithm.expert.source", "names no source of expert rows: set it to `buffer` or `same_prompt`"


def _losses(plan: "RunConfig") -> Refusals:
    """A loss that reads advantages with none to read, or the other way round."""
    algorithm = plan.algorithm
    own = {"dpo": "dpo", "kto": "kto", "reward_model": "bradley_terry"}.get(algorithm.name)
    supervised = ("sft", "sft_is", "sft_phi")
    if own and algorithm.loss.name != own:
        yield (
            "algorithm.loss.name",
            f"is `{algorithm.loss.name}`, but {algorithm.name} learns from {SOURCES[algorithm.name]}: set it to {own}",
        )
    elif algorithm.name == "sft" and algorithm.loss.name not in supervised:
        yield "algorithm.loss.name", f"is `{algorithm.loss.name}`, which needs rewards; sft takes one of {', '.join(supervised)}"
    elif not algorithm.learns_from_lessons and algorithm.loss.name in ("dpo", "kto", "bradley_terry"):
        yield (
            "algorithm.loss.name",
            f"`{algorithm.loss.name}` learns from people's lessons: set `algorithm.name` to dpo, kto or reward_model",
        )
    elif not algorithm.learns_from_lessons and algorithm.loss.name in supervised and algorithm.advantage.name != "best":
        yield (
            "algorithm.advantage.name",
            f"is `{algorithm.advantage.name}`, which the loss `{algorithm.loss.name}` never reads: "
            "set it to best (RAFT), or choose another loss",
        )
    if algorithm.loss.name == "kimi" and algorithm.aggregation != "seq-mean-token-sum":
        yield (
            "algorithm.aggregation",
            f"is `{algorithm.aggregation}`, but `kimi` squares the log-ratio of a whole answer: set it to seq-mean-token-sum",
        )
    if algorithm.learns_from_lessons != (algorithm.advantage.name == "none"):
        yield (
            "algorithm.advantage.name",
            f"`{algorithm.name}` compares no rollouts: remove `advantage`"
            if algorithm.learns_from_lessons
            else f"`none` is for runs that sample nothing; `{algorithm.name}` needs one, such as grpo",
        )


def _lessons(plan: "RunConfig") -> Refusals:
    """A run that learns from lessons draws no groups, so nothing about groups can be asked of it."""
    if words := problem_of(plan.algorithm.name, plan.snapshot):
        yield "snapshot", words
    if not plan.algorithm.learns_from_lessons:
        return
    if plan.lora and plan.algorithm.name == "reward_model":
        yield "lora", "a reward model trains all its weights, its new head with them: remove it"
    for name in SAMPLING_FIELDS:
        if getattr(plan, name) != type(plan).model_fields[name].get_default():
            yield name, f"means nothing to `algorithm.name: {plan.algorithm.name}`, which samples no groups: remove it"


def _length(plan: "RunConfig") -> Refusals:
    """The length reward is part of what a group is compared by, so the comparison must be within the group."""
    advantage = plan.algorithm.advantage
    if plan.length_penalty is None:
        return
    if plan.algorithm.learns_from_lessons:
        yield "length_penalty", f"means nothing to `algorithm.name: {plan.algorithm.name}`, which samples no groups: remove it"
    elif advantage.over_batch or advantage.name == "gdpo" or plan.algorithm.has_teacher:
        yield "length_penalty", f"`{advantage.name}` compares more than a group's rewards: use `algorithm.advantage: grpo`"


def _environment(plan: "RunConfig") -> Refusals:
    """What an environment says is not known before: neither to raters nor to a record, and nor is the most it can give."""
    environment = plan.environment
    if environment is None:
        return
    if environment.name in {choice.scorer for choice in plan.rewards}:
        yield "rewards", f"names `{environment.name}`, as the environment is called: its reward is in it already; remove the scorer"
    if plan.people.per_group:
        yield "people.per_group", "raters are not shown what an environment said first: set it to 0, or remove `environment`"
    if plan.replay:
        yield "environment", "means nothing to a run that replays another's data: remove it"
    if plan.length_penalty:
        yield "length_penalty", "needs to know the most a rollout can get, which an environment does not tell: remove it"


def _serve(plan: "RunConfig") -> Refusals:
    """A caller's prompt is asked once, by the caller: there is no group to compare within, and nothing to draw."""
    if plan.serve is None:
        return
    advantage = plan.algorithm.advantage
    if plan.environment is None:
        yield "environment", "callers are its environment: add `environment: {name: agent}`, or remove `serve`"
    elif plan.environment.reward_s is not None:
        yield "environment.reward_s", "is said by `serve.feedback_s` in a run that serves: remove it"
    if plan.selection.name != "shuffle":
        yield "selection.name", f"is {plan.selection.name}, but callers bring the prompts and nothing is drawn: remove `selection`"
    if plan.group_size != 1:
        yield "group_size", f"is {plan.group_size}, but what a caller asks is answered once: set it to 1"
    if advantage.fewest > 1:
        yield (
            "algorithm.name",
            f"the advantage `{advantage.name}` compares the rollouts of a group, and what a caller asks is answered once: "
            "choose one that needs none, such as reinforce_plus_plus, reinforce, ppo, topr or raft",
        )


def _repeats(plan: "RunConfig") -> Refusals:
    if plan.sampling.repeats and plan.environment is not None:
        yield "sampling.repeats", "ends an answer, and in an environment each answer is an action that it must hear: remove it"
    if plan.sampling.repeats and not plan.samples:
        yield "sampling.repeats", "means nothing to a run that samples nothing itself: remove it"


def _slices(plan: "RunConfig") -> Refusals:
    if plan.sampling.slice_tokens and plan.environment is not None:
        yield (
            "sampling.slice_tokens",
            "sets answers aside with their tokens, and what an environment is in the middle of cannot be set aside: remove it",
        )
    if plan.sampling.slice_tokens and not plan.samples:
        yield "sampling.slice_tokens", "means nothing to a run that samples nothing itself: remove it"
    if plan.sampling.older_segments != "learn" and plan.algorithm.learns_from_lessons:
        yield "sampling.older_segments", "means nothing to a run that learns from lessons, which no weights have sampled: remove it"


def _time(plan: "RunConfig") -> Refusals:
    if plan.sampling.time_s and plan.environment is not None:
        yield (
            "sampling.time_s",
            "ends an answer, and in an environment each answer is an action that it must hear: remove it; the environment has "
            "limits of its own, turn_s and episode_s",
        )
    if plan.sampling.time_s and not plan.samples:
        yield "sampling.time_s", "means nothing to a run that samples nothing itself: remove it"


def _over_rollout(plan: "RunConfig") -> Refusals:
    """What is left over serves a later update, so it must be young enough then, and come first."""
    if plan.over_rollout is None:
        return
    most = plan.max_staleness * plan.sync_interval * plan.groups_per_step
    if not plan.samples or plan.serve:
        yield "over_rollout", "is for runs that draw groups themselves: remove it"
    elif plan.over_rollout > most:
        yield (
            "over_rollout",
            f"is {plan.over_rollout}, but a later update can take at most {most} groups that are left over (max_staleness × "
            "sync_interval × groups_per_step): lower it, or raise max_staleness",
        )
    elif plan.reading.order.name != "fifo":
        yield (
            "over_rollout",
            f"needs what was drawn first to come first, and reading.order is {plan.reading.order.name}: remove one",
        )
    elif plan.reading.replay.name != "none":
        yield "over_rollout", "fills updates with what was left over, `reading.replay` with what was trained: remove one of them"


def _reading(plan: "RunConfig") -> Refusals:
    """What is taken again must be a group at least, and may not be too old before it can come."""
    if plan.reading.order.name == "reward_variance" and plan.group_size == 1:
        yield "reading.order.name", "is reward_variance, and the reward of one answer has none: raise group_size, or take another"
    rule = plan.reading.replay
    if rule.name == "none" or plan.algorithm.learns_from_lessons:
        return
    if not plan.groups_again_per_step:
        yield (
            "reading.replay.share",
            f"is {rule.share:g}, less than one of the {plan.groups_per_step} groups of an update: raise it, or groups_per_step",
        )
    # By how many versions the trainer is ahead at least: a group that the first update of its own version took comes back soonest.
    soonest = (1 + rule.cool_down) // plan.sync_interval
    if soonest > plan.max_staleness and rule.cool_down:
        yield (
            "reading.replay.cool_down",
            f"is {rule.cool_down}, after which every group is older than max_staleness, {plan.max_staleness}: "
            f"lower it, or raise max_staleness to {soonest} or more",
        )
    elif soonest > plan.max_staleness:
        yield (
            "reading.replay.name",
            "takes groups again that no newer weights have sampled, and max_staleness is 0: set it to 1 or more, or `replay: none`",
        )
    if rule.name == "prioritized" and plan.algorithm.has_teacher:
        yield (
            "reading.replay.name",
            f"is prioritized, by advantages that `{plan.algorithm.name}` has none of before its teacher speaks: set it to uniform",
        )


Rule = Callable[["RunConfig"], Refusals]
RULES: tuple[Rule, ...] = (
    _steps,
    _tasksets,
    _serve,
    _group,
    _batch,
    _scorers,
    _reference,
    _kl,
    _experts,
    _losses,
    _lessons,
    _length,
    _environment,
    _repeats,
    _slices,
    _time,
    _over_rollout,
    _reading,
)
RULES_OF_EVALUATION: tuple[Rule, ...] = (_tasksets, refusals_of_evaluation, _environment, _repeats, _slices, _time)
