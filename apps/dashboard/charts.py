"""The charts of a run's page: their metrics and labels.

Names are those of Metric rows; titles contain the units.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from apps.runs.algorithms.algorithm import Algorithm


@dataclass(frozen=True)
class Chart:
    """A chart; `names` are its metrics, and the title shows the newest value of the first.

    `words` are the labels of the lines, if there are several; "" for a metric drawn as a band.
    """

    key: str
    title: str
    names: tuple[str, ...]
    why: str = ""
    words: tuple[str, ...] = ()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return each metric shown as a line, with its label."""
        if not self.words:
            return [(name, "") for name in self.names]
        return [(name, words) for name, words in zip(self.names, self.words, strict=True) if words]

    def without(self, *names: str) -> "Chart":
        remaining = [
            (name, words)
            for name, words in zip(self.names, self.words, strict=True)
            if name not in names
        ]
        return replace(
            self,
            names=tuple(name for name, _ in remaining),
            words=tuple(words for _, words in remaining),
        )


@dataclass(frozen=True)
class Charts:
    """The charts of one run: a large one, and the small multiples below it."""

    large: Chart
    small: tuple[Chart, ...]

    @property
    def names(self) -> set[str]:
        return {name for chart in (self.large, *self.small) for name in chart.names}

    @property
    def titles(self) -> dict[str, str]:
        """Return the title of each metric that is drawn as a line, in the order of the charts."""
        titles: dict[str, str] = {}
        for chart in (self.large, *self.small):
            for name, label in chart.lines:
                titles.setdefault(name, f"{chart.title}: {label}" if label else chart.title)
        return titles


SOURCES = ("reward_rule", "reward_model", "reward_environment")
MACHINES = "reward_machine"
PEOPLE = ("people_per_h", "simulated_per_h")
GRADIENT = Chart(
    "grad_norm",
    "Gradient norm",
    ("grad_norm",),
    why="Norm before clipping. A large jump is a warning sign.",
)
RATE = Chart(
    "learning_rate",
    "Learning rate",
    ("learning_rate",),
    why="Learning rate, including warm-up and schedule.",
)
PACE = Chart(
    "step_seconds",
    "Step time, s",
    ("step_seconds", "wait_seconds"),
    "Time per step, and the part spent waiting for data.",
    ("total", "waiting"),
)
STARVED = Chart(
    "starved",
    "Waiting, s per step",
    ("wait_seconds", "starved_people", "starved_judging", "starved_sampling"),
    "Time that the trainer waited for data in a step, by cause.",
    ("total", "for people", "for scoring", "for sampling"),
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
        "Mean reward per step: overall, from people, from the simulated rater, and from each kind "
        "of scorer, weighted as in the run. Bands: one standard deviation.",
        (
            "mean",
            "",
            "● people",
            "",
            "○ simulated",
            "◆ rule",
            "▲ model",
            "■ environment",
            "scorers",
        ),
    ),
    (
        Chart("success", "Success", ("success",), why="Share of rollouts with full reward."),
        Chart(
            "completion_length",
            "Length, tokens",
            ("completion_length",),
            why="Mean length of a reply.",
        ),
        Chart(
            "kl",
            "KL, nats",
            ("behaviour_kl", "kl"),
            "KL divergence per token from the policy that sampled and, if there is one, from the"
            " reference model.",
            ("from sampling policy", "from reference model"),
        ),
        Chart(
            "entropy",
            "Entropy, nats",
            ("entropy",),
            "Entropy per token. Near zero, the policy no longer explores.",
        ),
        Chart(
            "staleness",
            "Staleness, versions",
            ("staleness",),
            why="Trainer's weight version minus the version that sampled the rollouts.",
        ),
        Chart(
            "behaviour_gap",
            "Behaviour gap, nats",
            ("behaviour_gap",),
            "Mean difference between the engine's and the trainer's logprobs. Above 0.02 is a "
            "warning sign; in bfloat16, rounding alone causes about 0.05.",
        ),
        Chart(
            "clip_share",
            "Clipped tokens",
            ("clip_share",),
            why="Share of tokens where clipping of the ratio applies.",
        ),
        GRADIENT,
        Chart(
            "dead_groups",
            "Dead groups",
            ("dead_groups",),
            why=("Share of groups in which all rewards are equal. They give no training signal."),
        ),
        Chart(
            "explore_tokens_per_s",
            "Sampled, tokens/s",
            ("explore_tokens_per_s",),
            why="Sampling throughput of the explorers.",
        ),
        Chart(
            "train_tokens_per_s",
            "Trained, tokens/s",
            ("train_tokens_per_s",),
            why=("Training throughput in reply tokens, including waiting time."),
        ),
        Chart(
            "judged_per_s",
            "Scored, groups/s",
            ("judged_per_s", "refined_per_s"),
            "Throughput of scorers and raters, and of the refiners.",
            ("scored", "refined"),
        ),
        Chart(
            "people_per_h",
            "Ratings/h",
            PEOPLE,
            "Ratings per hour by people and by the simulated rater, over the last ten minutes.",
            ("● people", "○ simulated"),
        ),
        Chart(
            "groups_ready",
            "Ready groups",
            ("groups_ready", "groups_under_way"),
            "Groups ready for training, and groups that are still being sampled, scored or rated.",
            ("ready", "in progress"),
        ),
        PACE,
        STARVED,
    ),
)
EXPERT = Chart(
    "expert_nll",
    "Expert loss, nats",
    ("expert_nll",),
    "Negative logprob of the expert tokens, per token.",
)
LOSS = Chart("loss", "Loss", ("loss",), why="The value that training minimizes.")
PREFERRED = (
    Chart(
        "right",
        "Correct order",
        ("right",),
        why="Share of pairs in which the model prefers the chosen reply.",
    ),
    Chart(
        "margin",
        "Margin",
        ("margin",),
        why="Reward of the chosen reply minus that of the rejected one.",
    ),
    Chart(
        "chosen_reward",
        "Chosen replies",
        ("chosen_reward",),
        why="Implicit reward of the chosen replies.",
    ),
    Chart(
        "rejected_reward",
        "Rejected replies",
        ("rejected_reward",),
        why="Implicit reward of the rejected replies.",
    ),
)
THUMBS = (
    Chart(
        "right",
        "Agreement with thumbs",
        ("right",),
        why="Share of replies where the model agrees with the thumb.",
    ),
    Chart(
        "liking",
        "Reward",
        ("reward",),
        why="Mean implicit reward of the replies, relative to the reference model.",
    ),
)
LESSONS = {"sft": (EXPERT,), "dpo": PREFERRED, "reward_model": PREFERRED, "kto": THUMBS}


def choose_charts(
    algorithm: Algorithm, metrics: Collection[str] = (), asks_people: bool = True
) -> Charts:
    """Return the charts for an algorithm.

    They depend on what the run learns from, and on whether it asks people. `metrics` are the run's
    metrics. Rewards of machines are one line in runs that did not record them by source.
    """
    if algorithm.learns_from_lessons:
        return Charts(LOSS, (*LESSONS[algorithm.name], GRADIENT, RATE, PACE))
    large = SAMPLED.large.without(MACHINES) if set(SOURCES) & set(metrics) else SAMPLED.large
    is_asked = asks_people or set(PEOPLE) & set(metrics)
    small = tuple(chart for chart in SAMPLED.small if is_asked or chart.key != PEOPLE[0])
    return Charts(large, (*small, EXPERT) if algorithm.expert.is_used else small)
