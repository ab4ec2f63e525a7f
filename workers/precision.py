"""Choice of the precision in which a model computes on a device, as requested or as is best.

Weights and optimizer of a trainer always stay in float32: the choice applies to forward and
backward passes (autocast). An engine holds its weights in the chosen precision.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from apps.policies.tensor_file import read_layout
from apps.runs.precision import LARGE_ON_A_CPU as LARGE_ON_A_CPU  # engines read it from here

AUTO = "auto"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16", "amx_tile")  # of torch.cpu.get_capabilities()


class UnsupportedPrecision(ValueError):
    """Raised if the device does not support the requested precision; names the field."""


@dataclass(frozen=True)
class ChosenPrecision:
    """Chosen precision, `name` is a key of DTYPES, with the reason for a log."""

    name: str
    reason: str

    @property
    def dtype(self) -> torch.dtype:
        """Return the same as torch has it."""
        return DTYPES[self.name]


def choose(field: str, requested: str, parameters: int, device: torch.device) -> ChosenPrecision:
    """Choose the precision of an "engine" or a "trainer" of a model with so many parameters.

    Raises UnsupportedPrecision for one that the device lacks.
    """
    if requested == AUTO:
        return _best_precision(parameters, device)
    if requested not in DTYPES:
        allowed = ", ".join((AUTO, *DTYPES))
        raise UnsupportedPrecision(
            f"precision.{field}: must be one of {allowed}, not {requested!r}"
        )
    if requested == "bfloat16" and not _has_bfloat16(device):
        raise UnsupportedPrecision(
            f"precision.{field}: {_name(device)} does not support bfloat16; use float16, "
            "float32 or auto"
        )
    if (field, requested, device.type) == ("trainer", "float16", "cpu"):
        # The library would train in float32 and say nothing.
        raise UnsupportedPrecision(
            "precision.trainer: float16 requires a GPU, but there is none; use bfloat16, "
            "float32 or auto"
        )
    return ChosenPrecision(requested, "set in the run's configuration")


def parameters_in(folder: Path) -> int:
    """Count a model's numbers by the heads of its weight files. Raises DamagedWeights."""
    files = sorted(folder.glob("*.safetensors"))
    placed = [tensor for path in files for tensor in read_layout(path)]
    return sum(math.prod(tensor.spec.shape) for tensor in placed)


def _best_precision(parameters: int, device: torch.device) -> ChosenPrecision:
    if device.type != "cpu":
        if _has_bfloat16(device):
            return ChosenPrecision("bfloat16", f"supported by {_name(device)}")
        return ChosenPrecision("float16", f"{_name(device)} has no bfloat16")
    if parameters < LARGE_ON_A_CPU:
        reason = f"best for models below {LARGE_ON_A_CPU:,} parameters on a CPU"
        return ChosenPrecision("float32", reason)
    if has_fast_bfloat16():
        return ChosenPrecision("bfloat16", "supported by this CPU, and the model is large")
    return ChosenPrecision("float32", "this CPU has no instructions for bfloat16")


def has_fast_bfloat16() -> bool:
    """Tell whether this CPU multiplies matrices of bfloat16 in hardware."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in FAST_BFLOAT16)


def _has_bfloat16(device: torch.device) -> bool:
    """Tell whether the device computes in bfloat16; a CPU always does, with or without hardware."""
    if device.type != "cuda":
        return True
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "this CPU"
