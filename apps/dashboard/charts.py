"""The charts of a run's page: which metrics, under which words. Names are those of Metric rows; units stand in the titles."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from apps.runs.algorithms.algorithm import Algorithm


@dataclass(frozen=True)
class Chart:
    """`names`: the metrics drawn; the first is the one whose newest value stands in the title. `words`: what the line of each
    is called, where there are several; "" for what is a band and no line.
    """

    key: str
    title: str
    names: tuple[str, ...]
    why: str = ""
    words: tuple[str, ...] = ()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Each metric that is a line, with its words."""
        if not self.words:
            return [(name, "") for name in self.names]
        return [(name, words) for name, words in zip(self.names, self.words, strict=True) if words]

    def without(self, *names: str) -> "Chart":
        kept = [(name, words) for name, words in zip(self.names, self.words, strict=True) if name not in names]
        return replace(self, names=tuple(name for name, _ in kept), words=tuple(words for _, words in kept))


@dataclass(frozen=True)
class Charts:
    """Those of one run: a large one, and the small multiples under it."""

    large: Chart
    small: tuple[Chart, ...]

    @property
    def names(self) -> set[str]:
        return {name for chart in (self.large, *self.small) for name in chart.names}


SOURCES, MACHINES = ("reward_rule", "reward_model", "reward_environment"), "reward_machine"
PEOPLE = ("people_per_h", "simulated_per_h")
GRADIENT = Chart("grad_norm", "gradient norm", ("grad_norm",), why="Before clipping. A jump of many times tells of trouble.")
RATE = Chart("learning_rate", "learning rate", ("learning_rate",), why="The optimizer's step size, warm-up included.")
PACE = Chart(
    "step_seconds",
    "seconds a step",
    ("step_seconds", "wait_seconds"),
    "Time of a step, and the part of it spent waiting for data.",
    ("whole", "waiting"),
)
STARVED = Chart(
    "starved",
    "starved, s a step",
    ("wait_seconds", "starved_people", "starved_judging", "starved_sampling"),
    "How long the trainer waited for data in a step, and for whom.",
    ("waiting", "for people", "for judging", "for sampling"),
)
SAMPLED = Charts(
    Chart(
        "reward",
        "Reward",
        (
            "reward_mean",
            "reward_std",
            "reward_human",
            "reward_human_std",
            "reward_simulated",
            *SOURCES,
            MACHINES,
        ),
        "Mean of a step's rollouts; what people said; what the simulated rater said; what each "
        "kind of machine gave, as the run weighs it. Bands: one standard deviation.",
        ("mean", "", "● people", "", "○ simulated", "◆ rule", "▲ model", "■ environment", "machines"),
    ),
    (
        Chart("success", "success", ("success",), why="Share of rollouts with the full reward."),
        Chart("completion_length", "length, tokens", ("completion_length",), why="Mean length of a reply."),
        Chart(
            "kl",
            "KL, nats",
            ("behaviour_kl", "kl"),
            "How far the policy has moved, per token: from what sampled, and from the reference where there is one.",
            ("from what sampled", "from the reference"),
        ),
        Chart("entropy", "entropy, nats", ("entropy",), "How undecided the policy is, per token. Near zero it explores no more."),
        Chart(
            "staleness",
            "staleness, versions",
            ("staleness",),
            why="How many versions older the sampling policy was than the trained one.",
        ),
        Chart(
            "behaviour_gap",
            "behaviour gap, nats",
            ("behaviour_gap",),
            "Mean difference of the engine's and the trainer's logprobs. Above 0.02 something is "
            "wrong; an engine in bfloat16 is 0.05 off by rounding alone.",
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
            "Throughput of scorers and people, and of the refiners after them.",
            ("judged", "refined"),
        ),
        Chart(
            "people_per_h",
            "decisions/h",
            PEOPLE,
            "Throughput of people over the last ten minutes, and of the simulated rater.",
            ("● people", "○ simulated"),
        ),
        Chart(
            "groups_ready",
            "ready, groups",
            ("groups_ready", "groups_under_way"),
            "Groups that wait for the trainer, and those still sampled, judged or waiting for people.",
            ("ready", "under way"),
        ),
        PACE,
        STARVED,
    ),
)
EXPERT = Chart("expert_nll", "experts, nats", ("expert_nll",), "How surprising the experts' tokens still are, per token.")
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


def charts_of(algorithm: Algorithm, known: Collection[str] = (), asks_people: bool = True) -> Charts:
    """What is worth drawing depends on what the run learns from, and on whether it asks people.

    `known`: its metrics. What machines gave is one line in runs, and in their steps, that did not record it by source.
    """
    if algorithm.learns_from_lessons:
        return Charts(LOSS, (*LESSONS[algorithm.name], GRADIENT, RATE, PACE))
    large = SAMPLED.large.without(MACHINES) if set(SOURCES) & set(known) else SAMPLED.large
    is_asked = asks_people or set(PEOPLE) & set(known)
    small = tuple(chart for chart in SAMPLED.small if is_asked or chart.key != PEOPLE[0])
    return Charts(large, (*small, EXPERT) if algorithm.expert.is_used else small)
