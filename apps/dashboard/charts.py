"""The charts of a run's page: which metrics, under which words and unit. Names are those of Metric rows."""

from dataclasses import dataclass

from apps.runs.algorithms.algorithm import Algorithm


@dataclass(frozen=True)
class Chart:
    """`names`: the metrics drawn; the first is the one whose newest value stands in the title."""

    key: str
    title: str
    names: tuple[str, ...]
    unit: str = ""
    why: str = ""


@dataclass(frozen=True)
class Charts:
    """Those of one run: a large one, and the small multiples under it."""

    large: Chart
    small: tuple[Chart, ...]

    @property
    def names(self) -> set[str]:
        return {name for chart in (self.large, *self.small) for name in chart.names}


GRADIENT = Chart("grad_norm", "gradient norm", ("grad_norm",), why="Before clipping. A jump of many times tells of trouble.")
RATE = Chart("learning_rate", "learning rate", ("learning_rate",), why="The optimizer's step size, warm-up included.")
PACE = Chart(
    "step_seconds",
    "seconds a step",
    ("step_seconds", "wait_seconds"),
    "s",
    "Time of a step; the thin line is the part spent waiting for data.",
)
STARVED = Chart(
    "starved",
    "starved, s a step",
    ("wait_seconds", "starved_people", "starved_judging", "starved_sampling"),
    "s",
    "How long the trainer waited for data in a step; the thin lines say for whom: people, judging, sampling.",
)
SAMPLED = Charts(
    Chart(
        "reward",
        "Reward",
        ("reward_mean", "reward_std", "reward_human", "reward_human_std", "reward_machine"),
        why="mean of a step's rollouts",
    ),
    (
        Chart("success", "success", ("success",), why="Share of rollouts with the full reward."),
        Chart("completion_length", "length, tokens", ("completion_length",), why="Mean length of a reply."),
        Chart(
            "kl",
            "KL",
            ("behaviour_kl", "kl"),
            "nats",
            "How far the policy has moved, per token: from what sampled, and from the reference where there is one.",
        ),
        Chart("entropy", "entropy", ("entropy",), "nats", "How undecided the policy is, per token. Near zero it explores no more."),
        Chart(
            "staleness",
            "staleness, versions",
            ("staleness",),
            why="How many versions older the sampling policy was than the trained one.",
        ),
        Chart(
            "behaviour_gap",
            "behaviour gap",
            ("behaviour_gap",),
            "nats",
            "Mean difference of the engine's and the trainer's logprobs. Above 0.02 something is wrong.",
        ),
        Chart("clip_share", "clipped", ("clip_share",), why="Share of tokens at which the ratio's clip is what counts."),
        GRADIENT,
        Chart(
            "dead_groups",
            "dead groups",
            ("dead_groups",),
            why="Share of the judged groups in which all answers were rewarded alike: nothing is learned from those.",
        ),
        Chart("explore_tokens_per_s", "sampled, tokens/s", ("explore_tokens_per_s",), why="Throughput of the explorers."),
        Chart(
            "train_tokens_per_s",
            "trained, tokens/s",
            ("train_tokens_per_s",),
            why="Throughput of the trainer: tokens of answers that its updates took, waiting included.",
        ),
        Chart(
            "judged_per_s",
            "judged, groups/s",
            ("judged_per_s", "refined_per_s"),
            why="Throughput of scorers and people; the thin line is the refiners'.",
        ),
        Chart(
            "people_per_h",
            "decisions/h",
            ("people_per_h", "simulated_per_h"),
            why="Throughput of people over the last ten minutes; the thin line is the simulated rater's.",
        ),
        Chart(
            "groups_ready",
            "ready, groups",
            ("groups_ready", "groups_under_way"),
            why="Groups that wait for the trainer; the thin line counts those still sampled, judged or waiting for people.",
        ),
        PACE,
        STARVED,
    ),
)
EXPERT = Chart("expert_nll", "experts, nats", ("expert_nll",), "nats", "How surprising the experts' tokens still are, per token.")
LOSS = Chart("loss", "Loss", ("loss",), why="what an update minimises")
PREFERRED = (
    Chart("right", "in the right order", ("right",), why="Share of pairs whose better answer the model prefers."),
    Chart("margin", "margin", ("margin",), why="By how much the better answer is preferred."),
    Chart("chosen_reward", "better answers", ("chosen_reward",), why="The model's reward of the better answers."),
    Chart("rejected_reward", "worse answers", ("rejected_reward",), why="The model's reward of the worse answers."),
)
THUMBS = (
    Chart("right", "on the thumb's side", ("right",), why="Share of answers that the model likes or dislikes as people do."),
    Chart("liking", "reward", ("reward",), why="The model's mean reward of the answers, against the reference model."),
)
LESSONS = {"sft": (EXPERT,), "dpo": PREFERRED, "reward_model": PREFERRED, "kto": THUMBS}


def charts_of(algorithm: Algorithm) -> Charts:
    """What is worth drawing depends on what the run learns from."""
    if algorithm.learns_from_lessons:
        return Charts(LOSS, (*LESSONS[algorithm.name], GRADIENT, RATE, PACE))
    if algorithm.expert.is_used:
        return Charts(SAMPLED.large, (*SAMPLED.small, EXPERT))
    return SAMPLED
