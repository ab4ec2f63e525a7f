"""In which precision a model computes on a device: what was asked for, or what is best there.

Weights and optimizer of a trainer stay in float32 whatever this says: it is about forward and
backward passes (autocast). An engine holds its weights in it.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from apps.policies.tensor_file import read_layout

AUTO = "auto"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Parameters from which a CPU computes in bfloat16, if it has instructions for it. Measured on one
# thread with avx512_bf16, from 1.3 to 135 million: an engine's step takes as long in either (148 ms
# for 32 rows at 135 M), a trainer's pass 1.05 to 1.5 times as long in float32 (4.5 s and 3.2 s at
# 135 M), while bfloat16 moves logprobs by 0.05 nats. So float32 is worth its time as far as that.
LARGE = 250_000_000
FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16", "amx_tile")  # of torch.cpu.get_capabilities()


class UnsupportedPrecision(ValueError):
    """The device does not compute in the precision that was asked for; names the field."""


@dataclass(frozen=True)
class Chosen:
    """`name`: a key of DTYPES; `reason`: fit for a log."""

    name: str
    reason: str

    @property
    def dtype(self) -> torch.dtype:
        """The same as torch has it."""
        return DTYPES[self.name]


def choose(field: str, wanted: str, parameters: int, device: torch.device) -> Chosen:
    """Choose the precision of an "engine" or a "trainer" of a model with so many parameters.

    Raises UnsupportedPrecision for one that the device lacks.
    """
    if wanted == AUTO:
        return _best(parameters, device)
    if wanted not in DTYPES:
        known = ", ".join((AUTO, *DTYPES))
        raise UnsupportedPrecision(f"precision.{field}: {wanted!r} is none; take one of {known}")
    if wanted == "bfloat16" and not _has_bfloat16(device):
        raise UnsupportedPrecision(
            f"precision.{field}: bfloat16 is not what {_name(device)} computes in; "
            "take float16, float32 or auto"
        )
    if (field, wanted, device.type) == ("trainer", "float16", "cpu"):
        # The library would train in float32 and say nothing.
        raise UnsupportedPrecision(
            "precision.trainer: float16 trains on a GPU alone, and there is none here; "
            "take bfloat16, float32 or auto"
        )
    return Chosen(wanted, "the run's configuration asks for it")


def parameters_in(folder: Path) -> int:
    """Count a model's numbers by the heads of its weight files. Raises DamagedWeights."""
    files = sorted(folder.glob("*.safetensors"))
    placed = [tensor for path in files for tensor in read_layout(path)]
    return sum(math.prod(tensor.spec.shape) for tensor in placed)


def _best(parameters: int, device: torch.device) -> Chosen:
    if device.type != "cpu":
        if _has_bfloat16(device):
            return Chosen("bfloat16", f"{_name(device)} computes in it")
        return Chosen("float16", f"{_name(device)} has no bfloat16")
    if parameters < LARGE:
        return Chosen("float32", f"on a CPU it costs little below {LARGE:,} parameters")
    if has_fast_bfloat16():
        return Chosen("bfloat16", "this CPU has instructions for it, and the model is large")
    return Chosen("float32", "this CPU has no instructions for bfloat16")


def has_fast_bfloat16() -> bool:
    """Tell whether this CPU multiplies matrices of bfloat16 in hardware."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in FAST_BFLOAT16)


def _has_bfloat16(device: torch.device) -> bool:
    """A CPU computes in it anyway, with or without instructions of its own."""
    if device.type != "cuda":
        return True
    return torch.cuda.is_bf16_supported(including_emulation=False)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "this CPU"
