"""Choice of the class that loads a policy's folder, and a check that its pictures can be read.

Names relied on in transformers 5.19: `AutoConfig`, `AutoModelForImageTextToText`,
`AutoModelForCausalLM`, `MODEL_FOR_CAUSAL_LM_MAPPING`, `PreTrainedModel.get_encoder(modality=)`; in
a configuration `model_type` and `vision_config`.
"""

import threading
from pathlib import Path
from typing import Any

from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
)

from apps.accounts import strict_json
from apps.policies.folder import CONFIG_LIMIT, SEEING

ONE_AT_A_TIME = threading.Lock()  # of this process


class CannotSee(ValueError):
    """Raised for an unsupported kind of vision model; the message says what can be done."""


def sees(config: Any) -> bool:
    """Tell whether a model of this configuration is shown pictures here."""
    return config.model_type in SEEING


def sees_in(folder: Path | str) -> bool:
    """Tell whether the folder's policy is shown pictures here.

    A folder of a tokenizer alone is not.
    """
    try:
        config = strict_json.read_json_file(Path(folder) / "config.json", CONFIG_LIMIT)
    except FileNotFoundError:
        return False
    return isinstance(config, dict) and config.get("model_type") in SEEING


def require_read(config: Any, instead: str = "") -> None:
    """Raise CannotSee for a model with an unsupported vision part; `instead`: what to do.

    Some of these models have a text model of their own, which is then read as a text-only policy.
    """
    if (
        getattr(config, "vision_config", None) is not None
        and not sees(config)
        and type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING
    ):
        supported = f"(known: {', '.join(sorted(SEEING))})"
        raise CannotSee(
            f"{_name(config)} reads pictures in a way that is not known here"
            f" {supported}{instead and ': '}{instead}"
        )


def load_vision_config(folder: Path | str) -> Any:
    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def load_vision_model(folder: Path | str, **how: Any) -> Any:
    """Load the folder with its own class, from safetensors, without its code or the network.

    One at a time: transformers changes global state while it reads, and two at once leave tied
    weights out.
    """
    with ONE_AT_A_TIME:
        of = (
            AutoModelForImageTextToText
            if sees(load_vision_config(folder))
            else AutoModelForCausalLM
        )
        return of.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, **how
        )


def find_vision_encoder(model: PreTrainedModel) -> nn.Module:
    """Return the vision encoder, without the layers that project into the text model's space."""
    encoder: nn.Module = model.get_encoder(modality="image")
    return encoder


def _name(config: Any) -> str:
    names: list[str] = getattr(config, "architectures", None) or [config.model_type]
    return names[0]
