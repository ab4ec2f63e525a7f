"""The charts of a run's page: which metrics, under which words and unit. Names are those of Metric rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """`names`: the metrics drawn; the first is the one whose newest value stands in the title."""

    key: str
    title: str
    names: tuple[str, ...]
    unit: str = ""
    why: str = ""


REWARD = Chart("reward", "Reward", ("reward_mean", "reward_std", "reward_human", "reward_machine"), why="mean of a step's rollouts")
CHARTS = (
    Chart("success", "success", ("success",), why="Share of rollouts with the full reward."),
    Chart("completion_length", "length, tokens", ("completion_length",), why="Mean length of a reply."),
    Chart(
        "kl",
        "KL",
        ("behaviour_kl", "kl"),
        "nats",
        "How far the policy has moved, per token: from what sampled, and from the base where beta is not 0.",
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
    Chart("explore_tokens_per_s", "sampled, tokens/s", ("explore_tokens_per_s",), why="Throughput of the explorers."),
    Chart(
        "step_seconds",
        "seconds a step",
        ("step_seconds", "wait_seconds"),
        "s",
        "Time of a step; the thin line is the part spent waiting for data.",
    ),
)
