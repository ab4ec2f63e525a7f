"""Layers of a policy that can get an adapter, by the names and shapes of its tensors."""

import pytest

from apps.policies.layers import _linear, missing_targets, short_names
from apps.policies.tensor_file import TensorSpec

SHAPES = {
    "model.embed_tokens.weight": (32, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.self_attn.q_proj.bias": (8,),
    "model.layers.0.mlp.up_proj.weight": (16, 8),
    "model.layers.0.mlp.experts.weight": (4, 16, 8),
    "model.norm.weight": (8,),
    "transformer.wte.weight": (32, 8),
    "lm_head.weight": (32, 8),
}
LAYERS = _linear((name, TensorSpec("F32", shape)) for name, shape in SHAPES.items())


def test_weight_matrices_except_embeddings_are_layers():
    assert short_names(LAYERS) == ["lm_head", "q_proj", "up_proj"]


@pytest.mark.parametrize(
    ("target", "is_there"),
    [
        ("q_proj", True),
        ("self_attn.q_proj", True),
        ("model.layers.0.mlp.up_proj", True),
        ("lm_head", True),
        ("proj", False),
        ("embed_tokens", False),
        ("norm", False),
        ("q_proj.weight", False),
        ("", False),
    ],
)
def test_target_is_a_whole_layer_name_or_its_end(target, is_there):
    assert missing_targets([target], LAYERS) == ([] if is_there else [target])
