"""Shapes of the models that the presets for one GPU are made for, from their config.json."""

from typing import Any

QWEN2_5 = {
    "gpu-0.5b": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
    },
    "gpu-1.5b-full": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
    },
    "gpu-7b-lora": {
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152_064,
        "tie_word_embeddings": False,
    },
}
PARAMETERS = {
    "gpu-0.5b": 494_032_768,
    "gpu-1.5b-full": 1_543_714_304,
    "gpu-7b-lora": 7_615_616_512,
}
CONTEXT = 32_768


def preset_config(preset: str) -> dict[str, Any]:
    """Return the configuration of the model that a preset is made for."""
    return {"model_type": "qwen2", "max_position_embeddings": CONTEXT, **QWEN2_5[preset]}
