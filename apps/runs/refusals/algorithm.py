"""Checks of an algorithm's settings, by themselves and with the data that the run learns from."""

from collections.abc import Iterator

from apps.runs.algorithms.snapshot import SOURCES, find_snapshot_problem
from apps.runs.config import RunConfig

Refusals = Iterator[tuple[str, str]]
# What a run that samples nothing has no use for.
SAMPLING_FIELDS = (
    "group_size",
    "groups_per_step",
    "max_staleness",
    "over_rollout",
    "selection",
    "rewards",
    "environment",
    "serve",
    "people",
    "pipeline",
    "reading",
    "replay",
    "retention",
)


def refusals_of_algorithm(plan: RunConfig) -> Refusals:
    """Yield the settings that cannot be combined, by dotted field."""
    for rule in (_reference, _kl, _experts, _losses, _advantages, _lessons, _ignored, _length):
        yield from rule(plan)


def _reference(plan: RunConfig) -> Refusals:
    """Yield a refusal if the KL penalty, the loss or the teacher lacks a reference model."""
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
            (
                "name the policy that is the reference (or the teacher) by its slug, such as"
                " `policy: large`"
            ),
        )
    if reference.policy and reference.kind != "policy":
        yield (
            "algorithm.reference.policy",
            (
                f"applies only to `kind: policy`, but kind is `{reference.kind}`: set the kind, or "
                "remove it"
            ),
        )
    if reference.kind == "version" and reference.version and not reference.run:
        yield (
            "algorithm.reference.version",
            (
                f"is {reference.version}, which this run does not have before it begins: name the "
                "run that has it under `algorithm.reference.run`, or use version 0"
            ),
        )
    if reference.run and reference.kind != "version":
        yield (
            "algorithm.reference.run",
            (
                f"applies only to `kind: version`, but kind is `{reference.kind}`: set the kind, "
                "or remove it"
            ),
        )
    if algorithm.has_teacher and reference.kind not in ("policy", "version"):
        yield (
            "algorithm.reference.kind",
            "a teacher is another policy: set `kind: policy` and name it under `policy`",
        )
    if algorithm.has_teacher and algorithm.kl.needs_reference:
        yield (
            "algorithm.kl.estimator",
            f"`{algorithm.name}` already measures against its teacher: set it to none",
        )


def _kl(plan: RunConfig) -> Refusals:
    kl = plan.algorithm.kl
    if plan.algorithm.learns_from_lessons and kl.needs_reference:
        yield (
            "algorithm.kl.estimator",
            (
                f"`{plan.algorithm.name}` samples nothing, so there is no divergence to measure: "
                "set it to none"
            ),
        )
    elif (
        kl.where == "reward"
        and kl.needs_reference
        and plan.algorithm.loss.name in ("sft", "sft_is", "sft_phi")
    ):
        yield (
            "algorithm.kl.where",
            (f"the loss `{plan.algorithm.loss.name}` does not use advantages: set it to loss"),
        )


def _experts(plan: RunConfig) -> Refusals:
    expert = plan.algorithm.expert
    weight = max(expert.schedule.peak, expert.schedule.valley) if expert.schedule else expert.mu
    if plan.algorithm.learns_from_lessons:
        if expert.is_used or weight:
            yield (
                "algorithm.expert.ratio",
                (
                    f"`{plan.algorithm.name}` has no rows of its own to mix expert rows with: "
                    "remove `expert`"
                ),
            )
    elif weight and not expert.is_used:
        yield (
            "algorithm.expert.ratio",
            (
                "is 0, but mu weights the expert loss: set the share of expert rows, such as 0.2, "
                "or `mu: 0` without a schedule"
            ),
        )
    elif expert.is_used and not weight:
        yield (
            "algorithm.expert.mu",
            "is 0, so expert rows would have no effect: set it above 0, such as 0.1, or `ratio: 0`",
        )
    elif expert.is_used and expert.source is None:
        yield (
            "algorithm.expert.source",
            "names no source of expert rows: set it to `buffer` or `same_prompt`",
        )


def _losses(plan: RunConfig) -> Refusals:
    """Yield a refusal if a loss needs advantages that there are not, or the other way round."""
    algorithm = plan.algorithm
    required_loss = {"dpo": "dpo", "kto": "kto", "reward_model": "bradley_terry"}.get(
        algorithm.name
    )
    supervised = ("sft", "sft_is", "sft_phi")
    if required_loss and algorithm.loss.name != required_loss:
        yield (
            "algorithm.loss.name",
            (
                f"is `{algorithm.loss.name}`, but {algorithm.name} learns from"
                f" {SOURCES[algorithm.name]}: set it to {required_loss}"
            ),
        )
    elif algorithm.name == "sft" and algorithm.loss.name not in supervised:
        yield (
            "algorithm.loss.name",
            (
                f"is `{algorithm.loss.name}`, which needs rewards; for sft, choose one of "
                f"{', '.join(supervised)}"
            ),
        )
    elif not algorithm.learns_from_lessons and algorithm.loss.name in (
        "dpo",
        "kto",
        "bradley_terry",
    ):
        yield (
            "algorithm.loss.name",
            (
                f"`{algorithm.loss.name}` learns from people's lessons: set `algorithm.name` to"
                " dpo, kto or reward_model"
            ),
        )
    elif (
        not algorithm.learns_from_lessons
        and algorithm.loss.name in supervised
        and algorithm.advantage.name != "best"
    ):
        yield (
            "algorithm.advantage.name",
            (
                f"is `{algorithm.advantage.name}`, which the loss `{algorithm.loss.name}` does not "
                "use: set it to best (RAFT), or choose another loss"
            ),
        )


def _advantages(plan: RunConfig) -> Refusals:
    """Yield a refusal if the advantage or the aggregation does not suit the algorithm."""
    algorithm = plan.algorithm
    if algorithm.loss.name == "kimi" and algorithm.aggregation != "seq-mean-token-sum":
        yield (
            "algorithm.aggregation",
            (
                f"is `{algorithm.aggregation}`, but `kimi` squares the log-ratio of a whole reply: "
                "set it to seq-mean-token-sum"
            ),
        )
    if algorithm.learns_from_lessons != (algorithm.advantage.name == "none"):
        yield (
            "algorithm.advantage.name",
            (
                f"`{algorithm.name}` compares no rollouts: remove `advantage`"
                if algorithm.learns_from_lessons
                else (
                    f"`none` is for runs that sample nothing; `{algorithm.name}` needs one, such as"
                    " grpo"
                )
            ),
        )


def _lessons(plan: RunConfig) -> Refusals:
    """Yield settings about groups for a run that learns from lessons and samples none."""
    if words := find_snapshot_problem(plan.algorithm.name, plan.snapshot):
        yield "snapshot", words
    if not plan.algorithm.learns_from_lessons:
        return
    if plan.lora and plan.algorithm.name == "reward_model":
        yield "lora", "a reward model trains all of its weights and a new head: remove it"
    for name in SAMPLING_FIELDS:
        if getattr(plan, name) != type(plan).model_fields[name].get_default():
            yield (
                name,
                (
                    f"does not apply to `algorithm.name: {plan.algorithm.name}`, which samples no "
                    "groups: remove it"
                ),
            )


def _ignored(plan: RunConfig) -> Refusals:
    """Yield parts that the algorithm does not read, or that have no effect on their own."""
    algorithm = plan.algorithm
    loss = algorithm.loss
    if algorithm.learns_from_lessons and algorithm.entropy.coefficient:
        yield (
            "algorithm.entropy.coefficient",
            (
                f"does not apply to `{algorithm.name}`: the bonus is for tokens that the policy "
                "sampled; set it to 0"
            ),
        )
    if algorithm.name in ("dpo", "kto", "reward_model"):
        if algorithm.aggregation != "seq-mean-token-sum":
            yield (
                "algorithm.aggregation",
                (
                    f"is `{algorithm.aggregation}`, but `{algorithm.name}` compares whole replies: "
                    "set it to seq-mean-token-sum"
                ),
            )
        if algorithm.reset_optimizer:
            yield (
                "algorithm.reset_optimizer",
                f"does not apply to `{algorithm.name}`: set it to false",
            )
    if loss.name == "rec" and (loss.regularizer == "none") != (not loss.regularizer_coefficient):
        yield (
            "algorithm.loss.regularizer_coefficient",
            (
                "is 0, so the regularizer has no effect: set it above 0, or `regularizer: none`"
                if loss.regularizer != "none"
                else "weights no regularizer: choose k2 or forward-kl, or set it to 0"
            ),
        )


def _length(plan: RunConfig) -> Refusals:
    """Yield what rules out a length penalty, which needs a comparison within the group.

    The length reward is part of what the rollouts of a group are compared by.
    """
    advantage = plan.algorithm.advantage
    if plan.length_penalty is None:
        return
    if plan.algorithm.learns_from_lessons:
        yield (
            "length_penalty",
            (
                f"does not apply to `algorithm.name: {plan.algorithm.name}`, which samples no "
                "groups: remove it"
            ),
        )
    elif advantage.over_batch or advantage.name == "gdpo" or plan.algorithm.has_teacher:
        yield (
            "length_penalty",
            (
                f"`{advantage.name}` compares more than a group's rewards: use"
                " `algorithm.advantage: grpo`"
            ),
        )
