"""Weight movement: the relative L2 change from the parent weights, by group of layers.

Read from the two sealed folders, a band of rows at a time, so that memory stays bounded whatever
the model's size. A large tensor is sampled by evenly spaced bands. Names relied on in safetensors
0.7: `safe_open().get_slice(name)[a:b]`.
"""

import math
import re
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import torch
from safetensors import safe_open

from workers import adapters

MAX_NUMBERS = 1 << 20  # elements of a tensor that are compared; larger ones are sampled
BANDS = 8
LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d+)\.")
TOWER = re.compile(r"(?:^|\.)(?:vision_tower|vision_model|visual)\.")
PARTS = (
    ("embed", "embedding"),
    ("wte", "embedding"),
    ("lm_head", "head"),
    ("projector", "projector"),
    ("norm", "last norm"),
)


class Movement(TypedDict):
    """Relative changes of weights, as they are stored in the database."""

    whole: float
    groups: list[list[str | float]]  # [group, change], in the model's order
    sampled: bool  # whether only bands of large tensors were read


def movement(folder: Path, parent: Path) -> Movement:
    """Return the relative change of the whole and of each group of layers, in the model's order.

    Raises OSError, SafetensorError or DamagedWeights where a folder cannot be read,
    KeyError where they are not of one model.
    """
    moved: dict[str, float] = defaultdict(float)
    size: dict[str, float] = defaultdict(float)
    sampled = False
    with ExitStack() as stack:
        now = _Weights(folder, stack)
        before = _Weights(parent, stack)
        for name in now.names:
            group = layer_group(name)
            for first, past in bands(now.shape(name)):
                old = before.rows(name, first, past)
                new = now.rows(name, first, past)
                moved[group] += float((new - old).double().square().sum())
                size[group] += float(old.double().square().sum())
            sampled |= math.prod(now.shape(name)) > MAX_NUMBERS
    groups: list[list[str | float]] = [
        [group, _relative(moved[group], size[group])] for group in sorted(size, key=_place)
    ]
    return {
        "whole": _relative(sum(moved.values()), sum(size.values())),
        "groups": groups,
        "sampled": sampled,
    }


def layer_group(name: str) -> str:
    """Return the name of the layer group a tensor belongs to."""
    tower = "vision " if TOWER.search(name) else ""
    if match := LAYER.search(name):
        return f"{tower}layer {match[1]}"
    return tower + next((words for part, words in PARTS if part in name), "other")


def bands(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the rows (first, one past the last) read of a tensor: all, or evenly spaced bands."""
    rows = shape[0] if shape else 1
    width = math.prod(shape[1:]) or 1
    if rows * width <= MAX_NUMBERS or rows < 2 * BANDS:
        return [(0, rows)]
    height = max(1, MAX_NUMBERS // width // BANDS)
    return [
        (first := band * (rows - height) // (BANDS - 1), first + height) for band in range(BANDS)
    ]


def _relative(moved: float, size: float) -> float:
    return math.sqrt(moved / size) if size else 0.0


def _place(group: str) -> tuple[bool, int, int, str]:
    """Return a sort key for the model's order: vision, embedding, layers by number, the rest."""
    words = group.removeprefix("vision ")
    layer = words.removeprefix("layer ")
    rank = 0 if words == "embedding" else 1 if layer.isdigit() else 2
    return (words == group, rank, int(layer) if layer.isdigit() else 0, words)


class _Weights:
    """The tensors of a sealed folder by name, in float32; an adapter's as merged with its base."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        base = adapters.find_adapter_base(folder)
        self.files: dict[str, safe_open] = {}
        for path in sorted((base or folder).glob("*.safetensors")):
            file = stack.enter_context(safe_open(path, "pt"))
            self.files |= dict.fromkeys(file.keys(), file)
        self.added = adapters.factors(folder) if base else {}

    @property
    def names(self) -> list[str]:
        return sorted(self.files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.files[name].get_slice(name).get_shape())

    def rows(self, name: str, first: int, past: int) -> torch.Tensor:
        if not self.shape(name):
            scalar: torch.Tensor = self.files[name].get_tensor(name)
            return scalar.float()
        rows: torch.Tensor = self.files[name].get_slice(name)[first:past].float()
        if name in self.added:
            scale, up, down = self.added[name]
            rows = rows + scale * (up[first:past] @ down)
        return rows
