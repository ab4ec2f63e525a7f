"""What the metrics are that no chart of a run's page shows by itself."""

WHY = {
    "loss": "What an update minimises.",
    "learning_rate": "The optimizer's step size, warm-up included.",
    "rows": "Rows of an update's batch, those of experts included.",
    "rows_again": "Rows of a batch that an earlier update had taken: experience replay.",
    "expert_rows": "Rows of a batch that experts wrote.",
    "lessons": "Lessons of an update's batch.",
    "tokens": "Tokens that an update learned from.",
    "people_share": "Share of rollouts that a person judged.",
    "simulated_share": "Share of rollouts that the simulated rater judged.",
    "reward_machine": "What machines gave in all, as the run weighs it.",
    "reward_std": "One standard deviation of a step's rewards.",
    "reward_human_std": "One standard deviation of what people said.",
    "staleness_max": "Versions that the oldest rollout of a batch was behind.",
    "update_seconds": "Seconds of the update itself.",
    "skipped": "1 where an update was not applied.",
    "kl_coefficient": "Weight of the KL, which follows its target where there is one.",
    "mu": "Share of the experts' term in the loss.",
    "epoch": "How often the snapshot was gone through.",
    "dual_clip_share": "Share of tokens at which the dual clip is what counts.",
    "dropped_share": "Share of tokens that the loss leaves out, for their ratio is too far off.",
    "behaviour_gap_p99": "The difference of the engine's and the trainer's logprobs that 99 of 100 tokens do not exceed.",
    "capped_share": "Share of tokens whose ratio was capped.",
    "router_balance": "How evenly a mixture's experts are used; 1 is even.",
    "kto_baseline": "The divergence that KTO measures likings against, in nats.",
    "cost_gpu_hours": "GPU hours so far.",
    "cost_cpu_hours": "Processor hours so far.",
    "cost_tokens": "Tokens so far.",
    "cost_judge_tokens": "Tokens of judges so far.",
    "cost_people_hours": "Hours of people so far.",
    "cost_money": "Money so far, where the project has prices.",
}


def why_of(name: str) -> str:
    """In a sentence; for what nobody described, the name under which it was recorded."""
    return WHY.get(name, f"Recorded as {name}.")
