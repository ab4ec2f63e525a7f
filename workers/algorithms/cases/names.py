"""Translate the names of the reference (Trinity-RFT) to ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from workers.algorithms.losses import LOSSES


class Unsupported(Exception):
    """Raised for a function or an option that has no counterpart here."""


@dataclass(frozen=True)
class Choice:
    """A loss of ours, with options and aggregation that reproduce the reference's function."""

    name: str
    options: dict[str, Any]
    aggregation: str

    def __call__(self, tokens: Any) -> Any:
        return LOSSES[self.name](tokens, **self.options)


# The reference's option → ours, where the meaning is the same.
OPTIONS: dict[str, dict[str, str]] = {
    "gspo": {"clip_range_low": "clip_low", "clip_range_high": "clip_high"},
    "cispo": {"clip_range_low": "clip_low", "clip_range_high": "clip_high"},
    "sapo": {"tau_pos": "tau_positive", "tau_neg": "tau_negative"},
    "topr": {"advantage_threshold": "threshold"},
    "sppo": {"epsilon": "epsilon"},
    "opmd": {"tau": "tau"},
    "rec": {
        "epsilon_low": "clip_low",
        "epsilon_high": "clip_high",
        "epsilon_low_prime": "outer_low",
        "epsilon_high_prime": "outer_high",
        "clip_mode": "clip_mode",
        "weight": "weight",
        "regularizer": "regularizer",
        "regularizer_coef": "regularizer_coefficient",
        "temp": "temperature",
    },
    "importance_sampling": {},
    "sft": {},
    "sft_is": {},
    "sft_phi": {"cutoff_prob": "cutoff"},
    "dpo": {"beta": "beta", "label_smoothing": "label_smoothing"},
    "ppo": {
        "clip_range_low": "clip_low",
        "clip_range_high": "clip_high",
        "clip_ratio_c": "dual_clip",
    },
}
VALUES = {
    "importance_sampling": "importance",
    "truncated_importance_sampling": "truncated",
    "gspo_importance_sampling": "sequence",
    "gspo-one-side": "sequence-one-side",
}
ESTIMATORS = {"low_var_kl": "low_var"} | {
    name: name for name in ("none", "k1", "k2", "k3", "abs", "corrected_k3")
}
PRIORITIES = {"linear_decay": "linear_decay", "decay_limit_randomization": "decay_with_limit"}
# The reference's own defaults where ours differ.
DEFAULTS: dict[str, dict[str, Any]] = {"sapo": {"constant_gate": True}}
AGGREGATIONS = {"gspo": "seq-mean-token-mean"}


def loss(fn: str, arguments: Mapping[str, Any]) -> Choice:
    """Translate a loss function and its options to ours.

    Raises Unsupported for a function or an option that has no counterpart.
    """
    if fn not in OPTIONS:
        raise Unsupported(fn)
    remaining = {name: value for name, value in arguments.items() if name != "backend"}
    aggregation = remaining.pop("loss_agg_mode", None) or AGGREGATIONS.get(fn, "token-mean")
    options = DEFAULTS.get(fn, {}) | _both_ends(remaining) | _switches(fn, remaining)
    for name, value in remaining.items():
        if name not in OPTIONS[fn]:
            raise Unsupported(f"{fn}: {name}")
        if value is not None:
            options[OPTIONS[fn][name]] = (
                VALUES.get(value, value) if isinstance(value, str) else value
            )
    if options.get("clip_mode") == "sequence-one-side":
        aggregation = "seq-mean-token-mean"  # the reference forces it, whatever the arguments say
    return Choice(fn, options, aggregation)


def _both_ends(remaining: dict[str, Any]) -> dict[str, Any]:
    """Use `clip_range` for both ends of the clip, unless an end is given separately."""
    clip_range = remaining.pop("clip_range", None)
    return {} if clip_range is None else {"clip_low": clip_range, "clip_high": clip_range}


def _switches(fn: str, remaining: dict[str, Any]) -> dict[str, Any]:
    """Translate the reference's switches: a switch and its number become our number, or None."""
    if fn == "ppo":
        masking = remaining.pop("enable_sequence_masking", False)
        above = remaining.pop("delta_sequence_masking", 0.1)
        fresh = remaining.pop("fallback_to_policy_gradient", False)
        return {"sequence_mask": above if masking else None, "policy_gradient_fallback": fresh}
    if fn == "cispo":
        masking = remaining.pop("enable_mask_clip", False)
        low = remaining.pop("mask_clip_range_low", 1.0)
        high = remaining.pop("mask_clip_range_high", 0.28)
        return {"mask_low": low, "mask_high": high} if masking else {}
    return {}


@dataclass(frozen=True)
class Mixture:
    """MIX or CHORD as the reference weighs it.

    The mean of each part is multiplied by its rows in the micro-batch and by a factor.
    """

    usual: Choice
    expert: Choice
    per_usual_row: float
    per_expert_row: float
    mu: float
    schedule: "Schedule | None"


class Schedule(TypedDict):
    """CHORD's schedule of μ, as `mixing.chord_mu` takes it."""

    warmup: int
    decay: int
    peak: float
    valley: float


OF_SCHEDULE = ("mu_warmup_steps", "mu_decay_steps", "mu_peak", "mu_valley")


def read_schedule(arguments: Mapping[str, Any]) -> Schedule:
    return {
        "warmup": arguments.get("mu_warmup_steps", 0),
        "decay": arguments.get("mu_decay_steps", 0),
        "peak": arguments.get("mu_peak", 0.1),
        "valley": arguments.get("mu_valley", 0.1),
    }


def mixture(fn: str, arguments: Mapping[str, Any], rows: int) -> Mixture:
    """Translate the arguments of a mixed loss, for a micro-batch of `rows`.

    Raises Unsupported for an option that has no counterpart.
    """
    remaining = {name: value for name, value in arguments.items() if name != "backend"}
    ranks = remaining.pop("ngpus_trainer", 1)
    of_update = remaining.pop("ppo_mini_batch_size", 1)
    of_micro_batch = remaining.pop("ppo_micro_batch_size_per_gpu", 1)
    dynamic = remaining.pop("use_dynamic_bsz", None)
    factor = of_update // ranks / rows if dynamic else of_update // of_micro_batch
    usual_rows, expert_rows = (
        remaining.pop(f"train_batch_size_{kind}", 1) // ranks for kind in ("usual", "expert")
    )
    schedule: Schedule | None = None
    mu = 0.0
    phi = False
    if fn == "mix_chord":
        schedule = read_schedule(remaining)
        remaining = {name: value for name, value in remaining.items() if name not in OF_SCHEDULE}
        phi = remaining.pop("enable_phi_function", True)
    else:
        mu = remaining.pop("mu", 0.1)
    aggregation = remaining.get("loss_agg_mode") or "token-mean"
    expert_aggregation = remaining.pop("sft_loss_agg_mode", None) or aggregation
    usual = loss("ppo", {"clip_range": 0.2} | remaining)
    expert = loss("sft_phi" if phi else "sft", {"loss_agg_mode": expert_aggregation})
    return Mixture(usual, expert, factor / usual_rows, factor / expert_rows, mu, schedule)


# The reference's advantage function → ours, and its options.
ADVANTAGES: dict[str, tuple[str, dict[str, str]]] = {
    "grpo": (
        "grpo",
        {
            "epsilon": "epsilon",
            "std_threshold": "std_threshold",
            "std_cal_level": "scale",
            "rank_penalty": "rank_penalty",
        },
    ),
    "rloo": ("rloo", {}),
    "opmd": ("opmd", {"opmd_baseline": "baseline", "tau": "tau"}),
    "asymre": ("asymre", {"baseline_shift": "baseline_shift"}),
    "rec": ("rec", {"epsilon": "epsilon", "std_normalize": "std_normalize", "drop": "drop"}),
    "reinforce": ("reinforce", {}),
}
MULTISTEP: dict[str, dict[str, str]] = {
    "step_wise_grpo": {
        "epsilon": "epsilon",
        "enable_step_norm": "step_norm",
        "std_cal_level": "scale",
        "std_threshold": "std_threshold",
    },
    "gigpo": {"omega": "omega", "gamma": "gamma", "fnorm": "scale", "epsilon": "epsilon"},
}
DISTILLATION: dict[str, dict[str, str]] = {
    "on_policy_distill": {"kl_coef": "coefficient"},
    "jsd": {"lambda_coef": "weight", "kl_coef": "coefficient", "temperature": "temperature"},
}
OFF = (None, False, 0, 0.0, "none")


def advantage(fn: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Translate an advantage function and its options to ours.

    Raises Unsupported for a function or an option that has no counterpart.
    """
    if fn not in ADVANTAGES:
        raise Unsupported(fn)
    name, table = ADVANTAGES[fn]
    return name, rename_options(fn, arguments, table)


def rename_options(
    fn: str, arguments: Mapping[str, Any], table: Mapping[str, str]
) -> dict[str, Any]:
    """Return our options.

    An option without a counterpart is ignored if it is switched off, and refused otherwise.
    """
    for name, value in arguments.items():
        if name not in table and value not in OFF:
            raise Unsupported(f"{fn}: {name}")
    return {
        ours: arguments[reference_name]
        for reference_name, ours in table.items()
        if arguments.get(reference_name) is not None
    }
