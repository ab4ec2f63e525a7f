"""The algorithms by name: for each, what its paper recommends for every part of the section `algorithm`.

A row holds only what differs from `FAMILY`; whatever the configuration gives explicitly wins over both.
`docs/algorithms.md` says what each is for, `manage.py algorithms` prints this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# What holds where a row says nothing: the clipped ratio without dual clip, averaged over rows, no reference model.
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
    """An algorithm: its title, its source (arXiv id or words), when to take it, and its parts."""

    title: str
    paper: str
    use: str
    parts: Mapping[str, object] = field(default_factory=dict)


TABLE: dict[str, Row] = {
    "grpo": Row(
        "GRPO",
        "2402.03300",
        "Rewards that a group of answers to one prompt can be compared by; the common starting point.",
        {"kl": {"estimator": "k3", "coefficient": 0.04}},
    ),
    "dr_grpo": Row(
        "Dr. GRPO",
        "2503.20783",
        "Answers of very different length, or tasks of very different difficulty: neither then changes a sample's weight.",
        {"advantage": NO_DIVISION, "aggregation": "seq-mean-token-sum-norm"},
    ),
    "dapo": Row(
        "DAPO",
        "2503.14476",
        "Long answers, and a policy whose entropy collapses; groups that are all right or all wrong are replaced.",
        {
            "advantage": {"name": "grpo", "std_threshold": 0.0},
            "loss": {"name": "ppo", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": None},
            "aggregation": "token-mean",
        },
    ),
    "bnpo": Row(
        "GRPO averaged over the batch's tokens",
        "TRL's loss type bnpo",
        "Comparison with runs of TRL; here the batch is the whole update, not one forward pass.",
        {"aggregation": "token-mean"},
    ),
    "gspo": Row(
        "GSPO",
        "2507.18071",
        "Mixture-of-experts models and long answers, where single tokens' ratios are noise.",
        {"loss": {"name": "gspo"}},
    ),
    "cispo": Row(
        "CISPO",
        "2506.13585",
        "Rare tokens that begin a new thought: a clip would silence them, a capped weight does not.",
        {"loss": {"name": "cispo"}, "aggregation": "token-mean"},
    ),
    "sapo": Row(
        "SAPO",
        "2511.20347",
        "In place of a clip when many tokens lie near its edge: the weight falls off smoothly.",
        {"loss": {"name": "sapo"}},
    ),
    "rloo": Row(
        "RLOO",
        "2402.14740",
        "Rewards from people or a reward model, with few answers a prompt; an unbiased baseline.",
        {
            "advantage": {"name": "rloo"},
            "aggregation": "seq-mean-token-sum",
            "kl": {"estimator": "k1", "coefficient": 0.05, "where": "reward"},
        },
    ),
    "reinforce": Row(
        "REINFORCE",
        "Williams 1992",
        "A baseline to measure the others by; rewards that are centred already.",
        {"advantage": {"name": "reinforce"}, "loss": {"name": "importance_sampling", "cap": None}, "aggregation": "token-mean"},
    ),
    "reinforce_plus_plus": Row(
        "REINFORCE++",
        "2501.03262",
        "One answer a prompt, many prompts: the whole update is the baseline.",
        {
            "advantage": {"name": "reinforce_plus_plus"},
            "aggregation": "token-mean",
            "kl": {"estimator": "k1", "coefficient": 0.01, "where": "reward"},
        },
    ),
    "ppo": Row(
        "PPO without a critic",
        "1707.06347",
        "Credit that should fade with the distance from the reward: set `advantage.gamma` or `advantage.lam` below 1.",
        {"advantage": {"name": "gae"}, "aggregation": "token-mean"},
    ),
    "importance_sampling": Row(
        "Truncated importance sampling",
        "1707.06347 without its clip",
        "Data of mixed age: the weight of an old sample is capped, its gradient stays.",
        {"loss": {"name": "importance_sampling", "cap": 2.0}, "aggregation": "token-mean"},
    ),
    "decoupled": Row(
        "Decoupled PPO",
        "2505.24298",
        "Asynchronous runs (`max_staleness` above 1): clipped around the weights of now, corrected for who sampled.",
        {"loss": {"name": "decoupled"}, "aggregation": "token-mean"},
    ),
    "opmd": Row(
        "Online policy mirror descent, first order",
        "2505.17826",
        "Off-policy data with a plain gradient, no ratio.",
        {"advantage": {"name": "opmd"}, "loss": {"name": "opmd"}, "aggregation": "token-mean"},
    ),
    "kimi_opmd": Row(
        "Kimi k1.5's mirror descent",
        "2501.12599",
        "Several updates on the samples of one version; stays near them by a squared log-ratio.",
        {"advantage": {"name": "opmd"}, "loss": {"name": "kimi"}, "aggregation": "seq-mean-token-sum", "reset_optimizer": True},
    ),
    "asymre": Row(
        "Asymmetric REINFORCE",
        "2506.20520",
        "Old samples: a baseline below the mean learns more from the good ones than from the bad.",
        {"advantage": {"name": "asymre"}, "loss": {"name": "opmd", "tau": 0.0}, "aggregation": "token-mean"},
    ),
    "topr": Row(
        "TOPR",
        "2503.14286",
        "Samples of another policy: good ones as they are, bad ones only as far as the policy still says them.",
        {"advantage": {"name": "reinforce"}, "loss": {"name": "topr"}, "aggregation": "token-mean"},
    ),
    "sppo": Row(
        "Softmax PPO",
        "2108.05828",
        "In place of PPO when its ratio grows large: the gradient uses the ratio's logarithm.",
        {"advantage": {"name": "opmd"}, "loss": {"name": "sppo"}, "aggregation": "token-mean"},
    ),
    "rec": Row(
        "Group-relative REINFORCE with cures",
        "2509.24203",
        "Asking which cure matters: clip, weight and regulariser are each an option.",
        {"advantage": {"name": "rec"}, "loss": {"name": "rec"}, "aggregation": "token-mean"},
    ),
    "raft": Row(
        "RAFT",
        "2304.06767",
        "Rewards that tell right from wrong: imitate the best own answers, learn nothing from the others.",
        {"advantage": {"name": "best"}, "loss": {"name": "sft"}, "aggregation": "seq-mean-token-mean"},
    ),
    "ranking": Row(
        "GRPO on people's ranking",
        "2402.03300 on ranks",
        "Ratings of people who use the scale differently: only the order within a group counts.",
        {"advantage": {"name": "ranking"}},
    ),
    "gdpo": Row(
        "GDPO",
        "2601.05242",
        "Several scorers whose ranges differ: none drowns the others.",
        {"advantage": {"name": "gdpo"}},
    ),
    "multi_step_grpo": Row(
        "Step-wise GRPO",
        "2402.03300 over turns",
        "Rollouts of several turns with one reward at the end.",
        {"advantage": {"name": "step_wise_grpo"}, "aggregation": "token-mean"},
    ),
    "gigpo": Row(
        "GiGPO",
        "2505.10978",
        "Rollouts of several turns that meet the same state more than once: turns are compared there.",
        {"advantage": {"name": "gigpo"}, "kl": {"estimator": "k3", "coefficient": 0.01}},
    ),
    "on_policy_distill": Row(
        "On-policy distillation",
        "2306.13649",
        "A stronger policy with the same tokens: it judges every token that the policy wrote.",
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
        "The same with a milder judge, where the policy says what the teacher never would.",
        {"advantage": {"name": "jensen_shannon"}, "aggregation": "token-mean", "reference": {"kind": "policy"}},
    ),
    "mix": Row(
        "MIX",
        "2505.17826",
        "A weak policy and some demonstrations: expert rows carry it to where its own samples earn rewards.",
        {"expert": MIXED},
    ),
    "mix_chord": Row(
        "CHORD",
        "2508.11408",
        "The same where imitation should lead at first and fade: mu falls, and tokens the policy knows weigh less.",
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
        "Demonstrations and nothing else; `loss: sft_is` or `sft_phi` spares what the policy knows (2508.05629, 2508.11408).",
        {**LESSONS, "loss": {"name": "sft"}, "aggregation": "token-mean"},
    ),
    "dpo": Row(
        "DPO",
        "2305.18290",
        "Pairs of answers of which people said the better one.",
        {**LESSONS, "loss": {"name": "dpo"}, "aggregation": "seq-mean-token-sum"},
    ),
    "kto": Row(
        "KTO",
        "2402.01306",
        "Single answers with a thumb up or down.",
        {**LESSONS, "loss": {"name": "kto"}, "aggregation": "seq-mean-token-sum"},
    ),
    "reward_model": Row(
        "Reward model",
        "Bradley and Terry 1952",
        "A scorer from people's preferences, for runs to come.",
        {**LESSONS, "loss": {"name": "bradley_terry"}, "aggregation": "seq-mean-token-sum"},
    ),
}


def defaults_of(name: str) -> dict[str, object]:
    """The parts of the algorithm of this name, complete but for what its sections fill in. Raises KeyError."""
    return {**FAMILY, **TABLE[name].parts}
