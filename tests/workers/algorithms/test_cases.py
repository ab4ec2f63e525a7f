"""The runner of published cases: our functions return the numbers of the reference, without a
database.
"""

import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from workers.algorithms.cases.__main__ import answer_case, main

ROOT = Path(__file__).resolve().parents[3]
SMALL = {
    "logprob": [
        [-0.5, -1.0, -0.2, -2.0],
        [-0.7, -0.1, -3.0, -0.4],
        [-1.5, -0.3, -0.6, -0.9],
        [-0.05, -2.5, -0.8, -1.2],
    ],
    "old_logprob": [
        [-0.6, -0.7, -0.9, -2.0],
        [-0.2, -0.1, -1.0, -0.4],
        [-1.5, -1.3, -0.1, -0.9],
        [-1.05, -2.0, -0.8, -0.2],
    ],
    "ref_logprob": [
        [-0.4, -1.1, -0.3, -1.5],
        [-0.9, -0.2, -2.0, -0.6],
        [-1.4, -0.5, -0.6, -1.0],
        [-0.25, -2.2, -1.8, -1.0],
    ],
    "action_mask": [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]],
    "advantages": [[1.0] * 4, [-1.0] * 4, [0.5] * 4, [-2.0] * 4],
    "expert_mask": [0, 0, 1, 1],
}
MIX = {"mu": 0.1, "clip_range": 0.2, "loss_agg_mode": "token-mean"}
CHORD = {
    "mu_warmup_steps": 10,
    "mu_decay_steps": 100,
    "mu_peak": 0.9,
    "mu_valley": 0.05,
    "clip_range": 0.2,
}

# Group, function, options, further inputs, and the result of the reference's code (0.6.0, executed
# once).
PUBLISHED = [
    (
        "policy_loss",
        "ppo",
        {"clip_range": 0.2, "clip_ratio_c": 3.0, "loss_agg_mode": "token-mean"},
        {},
        {
            "loss": 0.2890574,
            "metrics": {"pg_clipfrac": 0.4, "pg_clipfrac_lower": 0.0, "ppo_kl": 0.0},
            "grad_abs_sum": 0.9782553,
        },
    ),
    (
        "policy_loss",
        "ppo",
        {"clip_range": 0.2, "enable_sequence_masking": True, "delta_sequence_masking": 0.1},
        {},
        {
            "loss": 0.0290574,
            "metrics": {"seq_mask/masked_tokens": 0.4, "seq_mask/mean_sequence_kl": -0.1979167},
        },
    ),
    (
        "policy_loss",
        "gspo",
        {"clip_range_low": 3e-4, "clip_range_high": 4e-4},
        {},
        {"loss": 1.2339159, "grad_abs_sum": 1.3591409},
    ),
    (
        "policy_loss",
        "sapo",
        {"tau_pos": 1.0, "tau_neg": 1.05},
        {},
        {"loss": 0.4526287, "grad_abs_sum": 2.2536873},
    ),
    (
        "policy_loss",
        "rec",
        {"clip_mode": "gspo-one-side", "weight": "gspo_importance_sampling"},
        {},
        {"loss": 0.194084, "grad_abs_sum": 1.64243},
    ),
    (
        "policy_loss",
        "dpo",
        {"beta": 0.5, "label_smoothing": 0.1},
        {},
        {"loss": 0.6543967, "metrics": {"accuracy_mean": 1.0}},
    ),
    (
        "policy_loss",
        "mix",
        MIX,
        {},
        {
            "loss": -0.2484924,
            "metrics": {"usual/pg_loss": -0.4131398, "expert/sft_loss": 1.2333332},
        },
    ),
    (
        "policy_loss",
        "mix",
        MIX
        | {
            "ppo_mini_batch_size": 8,
            "ppo_micro_batch_size_per_gpu": 4,
            "train_batch_size_usual": 6,
            "train_batch_size_expert": 2,
        },
        {},
        {"loss": -0.0006086},
    ),
    (
        "policy_loss",
        "mix_chord",
        CHORD,
        {"step": [60] * 4},
        {"loss": -0.115585, "metrics": {"mu": 0.475}},
    ),
    ("kl", "corrected_k3", {"kl_coef": 0.01}, {}, {"kl_loss_times_coef[token-mean]": 0.000361196}),
    (
        "entropy",
        "mix",
        {"entropy_coef": 0.01},
        {"entropy": [[0.5, 1, 1.5, 2], [0.1, 0.2, 0.3, 0], [9] * 4, [9] * 4]},
        {"loss": 0.008},
    ),
    (
        "mu_schedule",
        "chord_mu",
        {},
        {"global_step": 5} | {k: v for k, v in CHORD.items() if k != "clip_range"},
        {"mu": 0.45},
    ),
    ("advantage", "grpo", {"epsilon": 1e-6}, {"group_rewards": [[0, 1, 2, 3, 4]]}, {"count": 5}),
    (
        "advantage_distill",
        "jsd",
        {"lambda_coef": 0.5},
        {},
        {"metrics": {"jsd/mean": -0.1096724, "jsd/std": 0.0488903}},
    ),
]


def as_cases() -> list[dict]:
    keys = ("group", "fn", "args", "extra_inputs", "expected")
    named = [
        {"id": str(place)} | dict(zip(keys, published, strict=True))
        for place, published in enumerate(PUBLISHED)
    ]
    return [case | ({} if case["group"] == "advantage" else {"dataset": "small"}) for case in named]


def close(found: object, expected: object) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            close(found[name], expected[name]) for name in expected
        )
    return found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("case", as_cases(), ids=lambda case: f"{case['fn']}-{case['id']}")
def test_functions_return_the_published_numbers(case):
    assert close(answer_case(case, {"small": SMALL}), case["expected"])


@pytest.mark.parametrize(
    ("group", "fn", "options"),
    [
        ("policy_loss", "m2po", {}),
        ("policy_loss", "ppo", {"clip_range": 0.2, "clip_more": 1}),
        ("advantage", "cod", {}),
        ("kl", "k9", {}),
        ("reward", "math_boxed", {}),
        ("priority", "decay_limit_randomization", {"sigma": 1.0}),
        ("advantage_multistep", "unheard_of", {}),
        ("advantage_token", "unheard_of", {}),
    ],
)
def test_case_with_an_unknown_function_or_option_is_unsupported(group, fn, options):
    inputs = {
        "group_rewards": [[0.0, 1.0]],
        "steps": [],
        "token_level_rewards": [[1.0]],
        "response_mask": [[1]],
        "uid": ["a"],
    }
    case = {
        "id": "x",
        "group": group,
        "fn": fn,
        "args": options,
        "dataset": "small",
        "inputs": inputs,
    }

    assert answer_case(case, {"small": SMALL}) == "unsupported"


@pytest.mark.parametrize(
    ("fn", "options", "groups", "drawn"),
    [
        (
            "grpo",
            {"duplicate_experiences": True, "std_threshold": 0.0},
            [[0.0, 1.0], [1.0, 0.0]],
            False,
        ),
        (
            "grpo",
            {"duplicate_experiences": True, "std_threshold": 0.0},
            [[0.0, 1.0], [1.0, 1.0]],
            True,
        ),
    ],
)
def test_case_is_unsupported_where_the_reference_samples_randomly(fn, options, groups, drawn):
    case = {
        "id": "x",
        "group": "advantage",
        "fn": fn,
        "args": options,
        "inputs": {"group_rewards": groups},
    }

    assert (answer_case(case, {}) == "unsupported") is drawn


def test_dpo_of_an_odd_number_of_rows_has_one_more_chosen():
    data = {name: rows[:3] for name, rows in SMALL.items()}
    case = {
        "id": "x",
        "group": "policy_loss",
        "fn": "dpo",
        "args": {"beta": 0.1},
        "dataset": "three",
    }
    # Δ of rows 0, 1 and 2: -0.4, -0.7 and 0.1
    margin = 0.1 * ((-0.4 + 0.1) - (-0.7))

    assert answer_case(case, {"three": data})["loss"] == pytest.approx(
        math.log(1 + math.exp(-margin)), abs=1e-6
    )


def test_gigpo_compares_episodes_of_a_task_and_turns_of_a_state():
    turns = [(0, 0, "a", 0.0), (0, 1, "b", 1.0), (1, 0, "a", 0.0)]  # run, step, state, reward
    steps = [
        {
            "task": 0,
            "run": run,
            "step": step,
            "reward": None,
            "info": {"where": state, "got": reward},
        }
        for run, step, state, reward in turns
    ]
    options = {
        "omega": 2.0,
        "gamma": 0.5,
        "fnorm": "none",
        "env_state_hash_key": "where",
        "step_reward_key": "got",
    }
    case = {
        "id": "x",
        "group": "advantage_multistep",
        "fn": "gigpo",
        "args": options,
        "inputs": {"steps": steps},
    }

    found = answer_case(case, {})

    # episodes 1 and 0; the returns from state a are 0.5 and 0
    expected = {"0-0-0": 0.5 + 2 * 0.25, "0-0-1": 0.5, "0-1-0": -0.5 - 2 * 0.25}
    assert found["advantage_scalar"] == pytest.approx(expected, abs=1e-5)
    assert found["metrics"]["gigpo/anchor_group_hit_ratio"] == 0.5
    assert found["metrics"]["gigpo/mean_abs_A_S"] == pytest.approx(1 / 6, abs=1e-5)


def test_refused_input_returns_the_reason():
    case = {
        "id": "x",
        "group": "advantage",
        "fn": "grpo",
        "inputs": {"group_rewards": [[0.0, float("nan")]]},
    }

    assert answer_case(case, {}) == {
        "refused": "rewards must be finite numbers; reward 1 of 2 is nan"
    }


def test_case_without_a_required_input_is_refused_with_the_inputs_name():
    assert answer_case({"id": "x", "group": "kl", "fn": "k2", "args": {}}, {}) == {
        "refused": "the case has no input 'logprob'"
    }


def test_case_without_expected_values_returns_all_results():
    case = {"id": "x", "group": "policy_loss", "fn": "sft", "args": {}, "dataset": "small"}

    assert set(answer_case(case, {"small": SMALL})) == {
        "loss",
        "metrics",
        "grad_wrt_logprob",
        "grad_abs_sum",
    }


def test_the_command_prints_json_without_database_or_settings(tmp_path):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"data": {"small": SMALL}, "cases": as_cases()[:2]}))
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DATABASE", "DJANGO", "REDIS"))
    }

    ran = subprocess.run(
        [sys.executable, "-m", "workers.algorithms.cases", str(file)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(json.loads(ran.stdout)) == {"0", "1"}


def test_command_prints_results_in_the_structure_of_the_expected_values(tmp_path, capsys):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"data": {"small": SMALL}, "cases": as_cases()}))

    assert main([str(file)]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert all(close(printed[case["id"]], case["expected"]) for case in as_cases())


def test_rank_penalty_lowers_rewards_by_likelihood_rank():
    inputs = {"group_rewards": [[1.0, 0.0, 1.0]], "group_logprobs": [[-0.1, -2.0, [-1.5, -0.5]]]}
    case = {
        "id": "x",
        "group": "advantage",
        "fn": "grpo",
        "args": {"rank_penalty": 0.3},
        "inputs": inputs,
    }

    found = answer_case(case, {})

    level = [1.0 * (1 - 0.3 * 2 / 3), 0.0, 1.0 * (1 - 0.3 * 1 / 3)]  # the likeliest is of rank 2
    middle = statistics.mean(level)
    width = statistics.stdev(level)
    expected = [(reward - middle) / (width + 1e-6) for reward in (1.0, 0.0, 1.0)]
    told = [found["advantages_by_task_run"][f"0-{run}"][0] for run in range(3)]
    assert told == pytest.approx(expected)
    assert found["metrics"]["group_advantages/reward_mean/mean"] == pytest.approx(middle)


def test_balance_dropping_keeps_as_many_bad_answers_as_good_ones():
    inputs = {"group_rewards": [[0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0]], "seed": 3}
    case = {
        "id": "x",
        "group": "advantage",
        "fn": "rec",
        "args": {"drop": "balance"},
        "inputs": inputs,
    }

    found = answer_case(case, {})

    told = [found["advantages_by_task_run"][f"0-{run}"][0] for run in range(4)]
    assert sorted(told) == [-0.5, 0.0, 0.0, 0.5] and told[3] == 0.5
    assert found["metrics"]["group_advantages/drop_balance/max"] == 0.5
    assert found["metrics"]["group_advantages/drop_balance/min"] == 0.0
    assert answer_case(case, {}) == found
