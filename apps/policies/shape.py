"""How large a language model is, by what its config.json says; the unit of sizes is one number."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """`width` of a layer's input, `attention` of its queries, `keys` of its keys, and of its
    values.

    `inner`: width of the two matrices before a layer's last one.
    """

    layers: int
    width: int
    inner: int
    attention: int
    keys: int
    vocabulary: int

    @property
    def cached(self) -> int:
        """Return how many numbers a token leaves in the cache, per layer."""
        return 2 * self.keys

    def adapter(self, rank: int, modules: tuple[str, ...]) -> int:
        """Return how many numbers adapters have at the layers whose names end so.

        Each layer has rank × (input width + output width).
        """
        return rank * self.layers * sum(self._layer_widths(name) for name in modules)

    def _layer_widths(self, module: str) -> int:
        """Return the sum of input and output width of a layer's matrix, by its usual name.

        Layers of other names count as twice the model's width.
        """
        widths = {
            "q_proj": self.width + self.attention,
            "k_proj": self.width + self.keys,
            "v_proj": self.width + self.keys,
            "o_proj": self.attention + self.width,
            "gate_proj": self.width + self.inner,
            "up_proj": self.width + self.inner,
            "down_proj": self.inner + self.width,
        }
        return widths.get(module, 2 * self.width)


def shape_in(folder: Path) -> Shape | None:
    """Return the shape by the folder's config.json; None if that is missing or lacks the sizes."""
    try:
        return read_model_shape(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, AttributeError):
        return None


def read_model_shape(config: Mapping[str, Any]) -> Shape:
    """Read a model's configuration.

    Raises KeyError, TypeError or ValueError for what has no such sizes.
    """
    text_config = {**config, **config.get("text_config", {})}
    width = int(text_config["hidden_size"])
    heads = int(text_config["num_attention_heads"])
    size = int(text_config.get("head_dim") or width // heads)
    return Shape(
        layers=int(text_config["num_hidden_layers"]),
        width=width,
        inner=int(text_config.get("intermediate_size") or 4 * width),
        attention=heads * size,
        keys=int(text_config.get("num_key_value_heads") or heads) * size,
        vocabulary=int(text_config["vocab_size"]),
    )
