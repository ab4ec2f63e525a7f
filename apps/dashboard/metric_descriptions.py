"""Descriptions of metrics that no chart of a run's page shows by itself."""

WHY = {
    "loss": "The value that training minimizes.",
    "learning_rate": "Learning rate, including warm-up and schedule.",
    "rows": "Rows in a batch, including expert rows.",
    "rows_again": "Rows in a batch that an earlier step already used (experience replay).",
    "expert_rows": "Expert rows in a batch.",
    "lessons": "Offline examples in a batch.",
    "tokens": "Tokens trained on in a step.",
    "people_share": "Share of rollouts that people rated.",
    "simulated_share": "Share of rollouts that the simulated rater rated.",
    "reward_machine": "Weighted mean reward from scorers.",
    "reward_std": "Standard deviation of a step's rewards.",
    "reward_human_std": "Standard deviation of people's rewards.",
    "staleness_max": "Staleness of the oldest rollout in a batch.",
    "update_seconds": "Time of the optimizer step itself, in seconds.",
    "skipped": "1 if a step was not applied.",
    "kl_coefficient": "Coefficient of the KL penalty. It adapts if there is a target.",
    "mu": "Weight of the SFT loss in MIX.",
    "epoch": "Passes through the snapshot.",
    "dual_clip_share": "Share of tokens where the dual clip applies.",
    "dropped_share": "Share of tokens excluded from the loss because of their ratio.",
    "behaviour_gap_p99": (
        "99th percentile of the difference between the engine's and the trainer's logprobs."
    ),
    "capped_share": "Share of tokens with a capped ratio.",
    "router_balance": "How evenly the experts of a mixture-of-experts model are used. 1 is even.",
    "kto_baseline": "KTO's KL baseline, in nats.",
    "cost_gpu_hours": "GPU hours so far.",
    "cost_cpu_hours": "CPU hours so far.",
    "cost_tokens": "Sampled tokens so far.",
    "cost_judge_tokens": "Judge tokens so far.",
    "cost_people_hours": "People's hours so far.",
    "cost_money": "Cost so far, if the project has prices.",
}


def describe_metric(name: str) -> str:
    """Return the description of a metric; without one, a sentence with its name."""
    return WHY.get(name, f"Recorded as {name}.")
