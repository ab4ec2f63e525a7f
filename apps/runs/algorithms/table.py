"""Table of the algorithms: the defaults that each paper recommends for every part.

A row holds only what differs from `FAMILY`; whatever the configuration gives explicitly wins over
both. `docs/algorithms.md` says what each is for, `manage.py algorithms` prints this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# What holds where a row says nothing: the clipped ratio without dual clip, averaged over rows, no
# reference model.
FAMILY: Mapping[str, object] = MappingProxyType(
    {
        "advantage": {"name": "grpo"},
        "loss": {"name": "ppo", "clip_low": 0.2, "clip_high": 0.2, "dual_clip": None},
        "aggregation": "seq-mean-token-mean",
    }
)
NO_DIVISION = {"name": "grpo", "scale": "none"}
MIXED = {"ratio": 0.2, "mu": 0.1, "source": "buffer"}
LESSONS = {"advantage": {"name": "none"}}


@dataclass(frozen=True)
class Row:
    """An algorithm: its title, its source (arXiv id or words), its use, and its parts.

    `use` is one sentence on what it does, or on what it is for.
    """

    title: str
    paper: str
    use: str
    parts: Mapping[str, object] = field(default_factory=dict)


TABLE: dict[str, Row] = {
    "grpo": Row(
        "GRPO",
        "2402.03300",
        "Compares the rewards of several replies to the same prompt; the usual starting point.",
        {"kl": {"estimator": "k3", "coefficient": 0.04}},
    ),
    "dr_grpo": Row(
        "Dr. GRPO",
        "2503.20783",
        "Does not let the length of a reply or the difficulty of a task change a sample's weight.",
        {"advantage": NO_DIVISION, "aggregation": "seq-mean-token-sum-norm"},
    ),
    "dapo": Row(
        "DAPO",
        "2503.14476",
        "Suits long replies and keeps entropy up; replaces groups that are all right or all wrong.",
        {
            "advantage": {"name": "grpo", "std_threshold": 0.0},
            "loss": {"name": "ppo", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": None},
            "aggregation": "token-mean",
        },
    ),
    "bnpo": Row(
        "GRPO averaged over the batch's tokens",
        "TRL's loss type bnpo",
        "Averages over the tokens of the whole step, to compare with runs of TRL.",
        {"aggregation": "token-mean"},
    ),
    "gspo": Row(
        "GSPO",
        "2507.18071",
        "Suits mixture-of-experts models and long replies, whose single-token ratios are noisy.",
        {"loss": {"name": "gspo"}},
    ),
    "cispo": Row(
        "CISPO",
        "2506.13585",
        "Keeps rare tokens that start a new line of thought: caps weights instead of clipping.",
        {"loss": {"name": "cispo"}, "aggregation": "token-mean"},
    ),
    "sapo": Row(
        "SAPO",
        "2511.20347",
        "Decreases weights smoothly instead of clipping, if many tokens are near the limit.",
        {"loss": {"name": "sapo"}},
    ),
    "rloo": Row(
        "RLOO",
        "2402.14740",
        "Has an unbiased baseline for few replies per prompt, judged by people or a reward model.",
        {
            "advantage": {"name": "rloo"},
            "aggregation": "seq-mean-token-sum",
            "kl": {"estimator": "k1", "coefficient": 0.05, "where": "reward"},
        },
    ),
    "reinforce": Row(
        "REINFORCE",
        "Williams 1992",
        "Uses rewards as they are: a baseline for comparison, or for rewards already centered.",
        {
            "advantage": {"name": "reinforce"},
            "loss": {"name": "importance_sampling", "cap": None},
            "aggregation": "token-mean",
        },
    ),
    "reinforce_plus_plus": Row(
        "REINFORCE++",
        "2501.03262",
        "Needs only one reply per prompt, as the whole step is the baseline.",
        {
            "advantage": {"name": "reinforce_plus_plus"},
            "aggregation": "token-mean",
            "kl": {"estimator": "k1", "coefficient": 0.01, "where": "reward"},
        },
    ),
    "ppo": Row(
        "PPO without a critic",
        "1707.06347",
        "Gives tokens far from the reward less credit, if `advantage.gamma` or `lam` is below 1.",
        {"advantage": {"name": "gae"}, "aggregation": "token-mean"},
    ),
    "importance_sampling": Row(
        "Truncated importance sampling",
        "1707.06347 without its clip",
        "Caps the weight of old samples but keeps their gradient, for data of different ages.",
        {"loss": {"name": "importance_sampling", "cap": 2.0}, "aggregation": "token-mean"},
    ),
    "decoupled": Row(
        "Decoupled PPO",
        "2505.24298",
        "Suits asynchronous runs (`max_staleness` above 1) by correcting for the sampling weights.",
        {"loss": {"name": "decoupled"}, "aggregation": "token-mean"},
    ),
    "opmd": Row(
        "Online policy mirror descent, first order",
        "2505.17826",
        "Learns from off-policy data with a plain gradient and no ratio.",
        {"advantage": {"name": "opmd"}, "loss": {"name": "opmd"}, "aggregation": "token-mean"},
    ),
    "kimi_opmd": Row(
        "Kimi k1.5's mirror descent",
        "2501.12599",
        "Takes several steps on the samples of one version and keeps the policy near them.",
        {
            "advantage": {"name": "opmd"},
            "loss": {"name": "kimi"},
            "aggregation": "seq-mean-token-sum",
            "reset_optimizer": True,
        },
    ),
    "asymre": Row(
        "Asymmetric REINFORCE",
        "2506.20520",
        "Learns more from good samples than from bad ones, which suits old samples.",
        {
            "advantage": {"name": "asymre"},
            "loss": {"name": "opmd", "tau": 0.0},
            "aggregation": "token-mean",
        },
    ),
    "topr": Row(
        "TOPR",
        "2503.14286",
        "Learns from another policy's good samples fully, and from bad ones only if likely.",
        {"advantage": {"name": "reinforce"}, "loss": {"name": "topr"}, "aggregation": "token-mean"},
    ),
    "sppo": Row(
        "Softmax PPO",
        "2108.05828",
        "Replaces PPO if its ratio grows large, as the gradient uses the log ratio.",
        {"advantage": {"name": "opmd"}, "loss": {"name": "sppo"}, "aggregation": "token-mean"},
    ),
    "rec": Row(
        "Group-relative REINFORCE with corrections",
        "2509.24203",
        "Has clipping, weights and regularization as options, to test which correction matters.",
        {"advantage": {"name": "rec"}, "loss": {"name": "rec"}, "aggregation": "token-mean"},
    ),
    "raft": Row(
        "RAFT",
        "2304.06767",
        "Imitates the policy's best replies and ignores the others, if rewards are clear-cut.",
        {
            "advantage": {"name": "best"},
            "loss": {"name": "sft"},
            "aggregation": "seq-mean-token-mean",
        },
    ),
    "ranking": Row(
        "GRPO on people's ranking",
        "2402.03300 on ranks",
        "Uses only the order within a group, for people who use the rating scale differently.",
        {"advantage": {"name": "ranking"}},
    ),
    "gdpo": Row(
        "GDPO",
        "2601.05242",
        "Gives each of several scorers the same influence, whatever its range.",
        {"advantage": {"name": "gdpo"}},
    ),
    "multi_step_grpo": Row(
        "Step-wise GRPO",
        "2402.03300 over turns",
        "Suits rollouts of several turns with one reward at the end.",
        {"advantage": {"name": "step_wise_grpo"}, "aggregation": "token-mean"},
    ),
    "gigpo": Row(
        "GiGPO",
        "2505.10978",
        "Compares turns that start from the same state, for rollouts of several turns.",
        {"advantage": {"name": "gigpo"}, "kl": {"estimator": "k3", "coefficient": 0.01}},
    ),
    "on_policy_distill": Row(
        "On-policy distillation",
        "2306.13649",
        "Learns every token from a stronger policy with the same tokenizer.",
        {
            "advantage": {"name": "towards_teacher"},
            "loss": {"name": "importance_sampling", "cap": None},
            "aggregation": "token-mean",
            "reference": {"kind": "policy"},
        },
    ),
    "jsd": Row(
        "Distillation by the Jensen-Shannon divergence",
        "2306.13649",
        "Distills with a milder teacher, if the policy writes what the teacher never would.",
        {
            "advantage": {"name": "jensen_shannon"},
            "aggregation": "token-mean",
            "reference": {"kind": "policy"},
        },
    ),
    "mix": Row(
        "MIX",
        "2505.17826",
        "Mixes demonstrations into each step, until a weak policy's own samples earn rewards.",
        {"expert": MIXED},
    ),
    "mix_chord": Row(
        "CHORD",
        "2508.11408",
        "Imitates demonstrations first, then less and less, and least for tokens it knows.",
        {
            "expert": {
                **MIXED,
                "loss": {"name": "sft_phi"},
                "schedule": {"warmup": 0, "decay": 200, "peak": 0.9, "valley": 0.05},
            }
        },
    ),
    "sft": Row(
        "Supervised fine-tuning",
        "cross-entropy",
        "Learns from demonstrations only; `loss: sft_is` or `sft_phi` preserves what it knows.",
        {**LESSONS, "loss": {"name": "sft"}, "aggregation": "token-mean"},
    ),
    "dpo": Row(
        "DPO",
        "2305.18290",
        "Learns from pairs of replies of which people preferred one.",
        {**LESSONS, "loss": {"name": "dpo"}, "aggregation": "seq-mean-token-sum"},
    ),
    "kto": Row(
        "KTO",
        "2402.01306",
        "Learns from single replies rated good or bad.",
        {**LESSONS, "loss": {"name": "kto"}, "aggregation": "seq-mean-token-sum"},
    ),
    "reward_model": Row(
        "Reward model",
        "Bradley and Terry 1952",
        "Trains a scorer from people's preferences, for later runs.",
        {**LESSONS, "loss": {"name": "bradley_terry"}, "aggregation": "seq-mean-token-sum"},
    ),
}


# Enough for most runs: from rewards, long replies, some or only demonstrations, and preferences.
RECOMMENDED = ("grpo", "dapo", "mix", "sft", "dpo")


def algorithm_defaults(name: str) -> dict[str, object]:
    """Return the parts of the algorithm of this name, complete but for what its sections fill in.

    Raises KeyError.
    """
    return {**FAMILY, **TABLE[name].parts}
