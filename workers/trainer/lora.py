"""Low-rank adapters in the trainer: their configuration, and how a version of them is published.

Names used from peft 0.21: `LoraConfig`, `PeftModel.peft_config`, `get_peft_model_state_dict`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file

from apps.policies.folder import ADAPTER, ADAPTER_CONFIG
from apps.policies.manifest import Manifest, require_like
from apps.policies.tensor_file import TensorSpec, read_layout
from workers.trainer.spec import Lora
from workers.weights import NAMES, published


def build_lora_config(plan: Lora) -> LoraConfig:
    """Return peft's configuration of the adapters, without dropout or bias.

    The engine must serve what was trained, W + (alpha / rank) · B · A (arXiv 2106.09685).
    """
    return LoraConfig(
        r=plan.rank,
        lora_alpha=plan.alpha,  # type: ignore[arg-type]  # only divided by the rank
        target_modules=list(plan.target_modules),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )


def publish_adapters(
    model: PeftModel,
    base: Path,
    final: Path,
    version: int,
    parent: int | None,
    precisions: Sequence[str] = (),
) -> Manifest:
    """Seal the adapters alone at `final`.

    Raises NotFinite and the errors of `seal`; then nothing has the name `final`.
    """
    return published(
        model,
        base,
        final,
        version,
        parent,
        write=_write,
        is_adapter=True,
        precisions=precisions,
    )


def layout(model: PeftModel) -> dict[str, TensorSpec]:
    """Return the tensors that a publication of this model's adapters holds."""
    return {
        name: TensorSpec(NAMES[tensor.dtype], tuple(tensor.shape))
        for name, tensor in _tensors(model).items()
    }


def _write(model: PeftModel, folder: Path, base: Path, like: Manifest) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(model).items()}
    save_file(tensors, folder / ADAPTER, metadata={"format": "pt"})
    require_like(
        {placed.name: placed.spec for placed in read_layout(folder / ADAPTER)}, layout(model)
    )
    (folder / ADAPTER_CONFIG).write_text(
        json.dumps(_described(model, base), indent=1, sort_keys=True) + "\n"
    )


def _tensors(model: PeftModel) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return tensors


def _described(model: PeftModel, base: Path) -> dict[str, object]:
    plan = model.peft_config["default"]
    assert isinstance(plan, LoraConfig)
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base.resolve()),
        "r": plan.r,
        "lora_alpha": plan.lora_alpha,
        "target_modules": sorted(plan.target_modules or ()),
        "lora_dropout": 0.0,
        "bias": "none",
    }
