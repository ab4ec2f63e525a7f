"""Meaningless combinations are refused by field, with a remedy."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.parsing import parse_config

GOOD = {"policy": "p", "taskset": "t", "steps": 3, "rewards": [{"scorer": "sort"}]}
DPO = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
TEACHER = {"name": "on_policy_distill", "reference": {"kind": "policy", "policy": "large"}}


def problems(**changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, **changes})
    return refused.value.problems


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        # groups
        ({"group_size": 1}, "group_size", "set it to 2 or more"),
        (
            {"group_size": 1, "algorithm": {"name": "rloo"}},
            "group_size",
            "compares the rollouts of a group",
        ),
        ({"group_size": 1, "algorithm": "gigpo"}, "group_size", "set it to 2 or more"),
        (
            {"group_size": 4, "algorithm": {"name": "raft", "advantage": {"keep": 5}}},
            "algorithm.advantage.keep",
            "at most",
        ),
        (
            {
                "group_size": 1,
                "algorithm": {"name": "reinforce_plus_plus", "advantage": {"baseline": "group"}},
            },
            "algorithm.advantage.baseline",
            "baseline: none",
        ),
        # settings without an effect
        (
            {**DPO, "algorithm": {"name": "dpo", "aggregation": "token-mean"}},
            "algorithm.aggregation",
            "seq-mean-token-sum",
        ),
        (
            {**DPO, "algorithm": {"name": "dpo", "reset_optimizer": True}},
            "algorithm.reset_optimizer",
            "false",
        ),
        (
            {**DPO, "algorithm": {"name": "dpo", "entropy": {"coefficient": 0.01}}},
            "algorithm.entropy.coefficient",
            "set it to 0",
        ),
        (
            {"algorithm": {"name": "rec", "loss": {"regularizer": "k2"}}},
            "algorithm.loss.regularizer_coefficient",
            "above 0",
        ),
        (
            {"algorithm": {"name": "rec", "loss": {"regularizer_coefficient": 0.1}}},
            "algorithm.loss.regularizer_coefficient",
            "choose k2 or forward-kl",
        ),
        # the whole step
        (
            {"groups_per_step": 1, "algorithm": {"advantage": {"scale": "batch"}}},
            "algorithm.advantage.scale",
            "set `scale: group`",
        ),
        (
            {"groups_per_step": 1, "group_size": 1, "algorithm": "reinforce_plus_plus"},
            "groups_per_step",
            "2 or more",
        ),
        (
            {"groups_per_step": 1, "group_size": 1, "algorithm": "ppo"},
            "groups_per_step",
            "2 or more",
        ),
        (
            {"groups_per_step": 1, "group_size": 1, "algorithm": "reinforce"},
            "groups_per_step",
            "only one of the run's",
        ),
        ({"groups_per_step": 1, "algorithm": "raft"}, "groups_per_step", "only one of the run's"),
        # rewards
        ({"algorithm": "gdpo"}, "rewards", "add a scorer"),
        (
            {
                "algorithm": "gdpo",
                "rewards": [{"scorer": "a"}, {"scorer": "b"}],
                "people": {"per_group": 1},
            },
            "people.per_group",
            "ranking",
        ),
        # reference
        (
            {"algorithm": {"name": "grpo", "reference": "none"}},
            "algorithm.reference.kind",
            "set it to base, version or average",
        ),
        (
            {"algorithm": {"reference": "none"}},
            "algorithm.reference.kind",
            "`algorithm.kl.estimator: none`",
        ),
        (
            {**DPO, "algorithm": {"name": "dpo", "reference": "none"}},
            "algorithm.reference.kind",
            "the loss compares with it",
        ),
        (
            {"algorithm": {"reference": {"kind": "version", "version": 3}}},
            "algorithm.reference.version",
            "or use version 0",
        ),
        (
            {"algorithm": {"reference": {"run": "first", "version": 3}}},
            "algorithm.reference.run",
            "set the kind",
        ),
        ({"algorithm": "on_policy_distill"}, "algorithm.reference.policy", "name the policy"),
        (
            {"algorithm": {"reference": {"policy": "large"}}},
            "algorithm.reference.policy",
            "set the kind",
        ),
        (
            {"algorithm": {**TEACHER, "reference": {"kind": "base"}}},
            "algorithm.reference.kind",
            "a teacher is another policy",
        ),
        (
            {"algorithm": {**TEACHER, "kl": {"estimator": "k3", "coefficient": 0.1}}},
            "algorithm.kl.estimator",
            "already measures against its teacher",
        ),
        # divergence
        (
            {"algorithm": {"kl": {"estimator": "k3", "coefficient": 0.1, "target": 0}}},
            "algorithm.kl.target",
            "greater than 0",
        ),
        (
            {"algorithm": {"kl": {"estimator": "k3", "coefficient": 0.1, "target": -1}}},
            "algorithm.kl.target",
            "greater than 0",
        ),
        (
            {"algorithm": {"kl": {"estimator": "k3", "coefficient": 0.0, "target": 1}}},
            "algorithm.kl",
            "must start above 0",
        ),
        (
            {"algorithm": {"kl": {"estimator": "none", "coefficient": 0.1}}},
            "algorithm.kl",
            "choose one",
        ),
        (
            {**DPO, "algorithm": {"name": "dpo", "kl": {"estimator": "k3", "coefficient": 0.1}}},
            "algorithm.kl.estimator",
            "to none",
        ),
        (
            {
                "algorithm": {
                    "name": "raft",
                    "kl": {"estimator": "k1", "coefficient": 0.1, "where": "reward"},
                }
            },
            "algorithm.kl.where",
            "set it to loss",
        ),
        # clip
        ({"algorithm": {"loss": {"dual_clip": 1}}}, "algorithm.loss.dual_clip", "greater than 1"),
        (
            {"algorithm": {"loss": {"clip_low": 1.5}}},
            "algorithm.loss.clip_low",
            "less than or equal to 1",
        ),
        # experts
        (
            {"algorithm": {"name": "mix", "expert": {"ratio": 0}}},
            "algorithm.expert.ratio",
            "set the share",
        ),
        ({"algorithm": {"expert": {"mu": 0.1}}}, "algorithm.expert.ratio", "set the share"),
        ({"algorithm": {"expert": {"mu": 0.1, "ratio": 0.2}}}, "algorithm.expert.source", "buffer"),
        (
            {"algorithm": {"name": "mix", "expert": {"source": None}}},
            "algorithm.expert.source",
            "same_prompt",
        ),
        ({"algorithm": {"name": "mix", "expert": {"mu": 0}}}, "algorithm.expert.mu", "above 0"),
        (
            {"algorithm": {"name": "mix", "expert": {"ratio": 1}}},
            "algorithm.expert.ratio",
            "less than or equal to 0.95",
        ),
        (
            {
                **DPO,
                "algorithm": {
                    "name": "dpo",
                    "expert": {"ratio": 0.2, "mu": 0.1, "source": "buffer"},
                },
            },
            "algorithm.expert.ratio",
            "remove `expert`",
        ),
        # losses
        (
            {"algorithm": {"name": "kimi_opmd", "aggregation": "token-mean"}},
            "algorithm.aggregation",
            "seq-mean-token-sum",
        ),
        ({"algorithm": {"loss": "dpo"}}, "algorithm.loss.name", "people's lessons"),
        ({"algorithm": {"loss": "sft"}}, "algorithm.advantage.name", "best"),
        ({"algorithm": {"advantage": "none"}}, "algorithm.advantage.name", "such as grpo"),
        (
            {**DPO, "algorithm": {"name": "dpo", "loss": "kto"}},
            "algorithm.loss.name",
            "set it to dpo",
        ),
        (
            {**DPO, "algorithm": {"name": "dpo", "advantage": "grpo"}},
            "algorithm.advantage.name",
            "remove `advantage`",
        ),
        (
            {
                "rewards": [],
                "snapshot": {"source": "demonstrations"},
                "algorithm": {"name": "sft", "loss": "ppo"},
            },
            "algorithm.loss.name",
            "sft_is",
        ),
        # lessons
        ({"rewards": [], "algorithm": "dpo"}, "snapshot", "add `snapshot"),
        ({"snapshot": {"source": "thumbs"}}, "snapshot", "remove it"),
        ({**DPO, "snapshot": {"source": "thumbs"}}, "snapshot", "preferences"),
        (
            {**DPO, "snapshot": {"source": "preferences", "rows": 1}},
            "snapshot.rows",
            "greater than or equal to 2",
        ),
        ({**DPO, "group_size": 4}, "group_size", "samples no groups"),
        ({**DPO, "groups_per_step": 4}, "groups_per_step", "samples no groups"),
        ({**DPO, "max_staleness": 4}, "max_staleness", "samples no groups"),
        ({**DPO, "rewards": [{"scorer": "sort"}]}, "rewards", "samples no groups"),
        ({**DPO, "people": {"per_group": 2}}, "people", "samples no groups"),
        # names
        ({"algorithm": "gsp"}, "algorithm.name", "did you mean `gspo`"),
        ({"algorithm": {"loss": "dapo"}}, "algorithm.loss.name", "take one of ppo"),
        (
            {"algorithm": {"loss": {"name": "gspo", "clip_hig": 1}}},
            "algorithm.loss.clip_hig",
            "did you mean `clip_high`",
        ),
        ({"algorithm": {"epsilon_low": 0.1}}, "algorithm.epsilon_low", "not a known field"),
        (
            {"algorithm": {"advantage": {"scal": "none"}}},
            "algorithm.advantage.scal",
            "did you mean `scale`",
        ),
        ({"lora": {"rank": 0}}, "lora.rank", "greater than or equal to 1"),
        ({"lora": {"target_modules": []}}, "lora.target_modules", "at least 1"),
    ],
)
def test_meaningless_combination_is_refused_with_a_remedy(changes, field, remedy):
    found = problems(**changes)
    assert remedy in found[field]


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "reinforce", "ppo", "topr", "raft"])
def test_one_rollout_per_task_is_enough_if_groups_are_not_compared(name):
    assert parse_config({**GOOD, "group_size": 1, "algorithm": name}).group_size == 1


def test_all_problems_are_reported_at_once():
    assert set(problems(group_size=1, algorithm={"reference": "none"})) == {
        "group_size",
        "algorithm.reference.kind",
    }


def test_run_that_trains_on_a_snapshot_needs_no_scorers():
    assert parse_config({**GOOD, **DPO}).usual_rows_per_step == 32
