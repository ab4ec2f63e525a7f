"""Sealed weight folders of any size, created with numpy only."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from apps.policies.folder import ADAPTER, ADAPTER_CONFIG
from apps.policies.manifest import Probe, seal_folder

PROBE = Probe(token_ids=(1, 2, 3), logprobs=(-0.5, -1.25))


def write_sealed(final: Path, version: int = 0, numbers: int = 96, seed: int = 0) -> Path:
    """Seal a folder of full weights, 4 bytes for each of `numbers`, and return it."""
    unfinished = _begun(final)
    values = np.random.default_rng(seed).normal(size=numbers).astype(np.float32)
    save_file({"embed.weight": values}, unfinished / "model.safetensors")
    (unfinished / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    (unfinished / "tokenizer.json").write_text('{"the": "same"}')
    seal_folder(unfinished, final, version, version - 1 if version else None, PROBE)
    return final


def write_adapter(final: Path, base: Path, base_fingerprint: str, version: int = 1) -> Path:
    """Seal a folder with an adapter for `base` and return it."""
    unfinished = _begun(final)
    values = np.random.default_rng(version).normal(size=(2, 3)).astype(np.float32)
    save_file({"base_model.model.embed.lora_A.weight": values}, unfinished / ADAPTER)
    described = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    (unfinished / ADAPTER_CONFIG).write_text(json.dumps(described))
    seal_folder(unfinished, final, version, version - 1, PROBE, base=base_fingerprint)
    return final


def _begun(final: Path) -> Path:
    unfinished = final.with_name(f"{final.name}.tmp")
    unfinished.mkdir(parents=True)
    return unfinished
