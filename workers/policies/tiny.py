"""Untrained policies for tests and measurements that need a real model but no skill."""

import dataclasses
from pathlib import Path

import torch

from apps.policies.manifest import Manifest
from workers.policies import recipes, warming
from workers.policies.saving import save_base

HIDDEN = 32
LAYERS = 1
# Width and depth by parameter count: a layer has 16 × width².
SHAPES = {
    1_000_000: (128, 4),
    3_000_000: (256, 3),
    20_000_000: (512, 5),
    150_000_000: (1024, 9),
    500_000_000: (1024, 30),
}


def build_tiny(
    folder: Path, name: str = "sort", seed: int = 0, hidden: int = HIDDEN, layers: int = LAYERS
) -> Manifest:
    """Seal a random-weight policy with the tokenizer of recipe `name` at `folder`; the same seed
    gives the same bytes.
    """
    return _build(folder, name, seed, (hidden, layers), recipes.CONTEXT, torch.float32)


def build_sized(
    folder: Path,
    parameters: float,
    name: str = "sort",
    context: int = recipes.CONTEXT,
    dtype: torch.dtype = torch.float32,
) -> Manifest:
    """Build as `build_tiny` does, with the known shape that is nearest in parameters.

    Weights are stored as `dtype`.
    """
    return _build(
        folder,
        name,
        0,
        SHAPES[min(SHAPES, key=lambda shape: abs(shape - parameters))],
        context,
        dtype,
    )


def _build(
    folder: Path, name: str, seed: int, shape: tuple[int, int], context: int, dtype: torch.dtype
) -> Manifest:
    hidden, layers = shape
    recipe = dataclasses.replace(recipes.find_recipe(name), hidden=hidden, layers=layers)
    tokenizer = recipe.tokenizer()
    model = warming.fresh(recipe, tokenizer, seed)
    torch.nn.Module.to(model, dtype)  # the wrapped `to` of transformers hides its types
    model.eval()
    model.config.max_position_embeddings = context  # Qwen3's rotary angles do not depend on it
    question, _ = next(recipe.demonstrate(seed))
    return save_base(model, tokenizer, folder, question)
