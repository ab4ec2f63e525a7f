"""Weights of a reward model: a policy whose last layer gives the score of the text so far.

Its sealed folders are like a policy's. Instead of logprobs, the probe holds the score after each
token but the first.
"""

import os
import shutil
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from apps.policies.folder import MANIFEST
from apps.policies.manifest import Manifest, Probe, read_manifest, seal_folder, verify_folder
from workers import weights


def ensure_base(policy: Path, final: Path, seed: int) -> Path:
    """Return the policy's body with a new scalar head, sealed as version 0 at `final`.

    `seed` initialises the head. The folder is built once. Raises DamagedWeights if an existing
    folder is damaged.
    """
    if final.exists():
        verify_folder(final)
        return final
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        policy,
        num_labels=1,
        pad_token_id=_pad_id(policy),
        dtype="float32",
        local_files_only=True,
        use_safetensors=True,
    )
    like = read_manifest(policy)
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for name in like.files:
            if not name.endswith(weights.WEIGHT_FILES) and name not in (
                MANIFEST,
                "config.json",
                "generation_config.json",
            ):
                shutil.copyfile(policy / name, unfinished / name)
        model.save_pretrained(unfinished)
        seal_folder(
            unfinished,
            final,
            0,
            None,
            Probe(like.probe.token_ids, tuple(probe_scores(model, like.probe.token_ids))),
        )
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return final


def publish_reward_model(
    model: PreTrainedModel, base: Path, final: Path, version: int, parent: int | None
) -> Manifest:
    """Publish weights as `weights.publish_weights` does, with the model's scores as the probe."""
    return weights.published(
        model, base, final, version, parent, write=weights.write_whole, probe=probe_scores
    )


@torch.no_grad()
def probe_scores(model: PreTrainedModel, token_ids: tuple[int, ...]) -> list[float]:
    """Return the score of the text up to each token but the first."""
    ids = torch.tensor([token_ids], device=model.device)
    was_training = model.training
    model.eval()
    try:
        hidden = model.base_model(input_ids=ids).last_hidden_state
        head = model.score
        assert isinstance(head, torch.nn.Module)
        scores: list[float] = head(hidden)[0, 1:, 0].float().tolist()
        return scores
    finally:
        model.train(was_training)


def _pad_id(policy: Path) -> int:
    """Return the token id by which the scoring head finds the end of a text.

    The configuration of a base model often lacks a padding token, so the tokenizer is read first.
    Raises ValueError if neither has a usable token.
    """
    tokenizer = AutoTokenizer.from_pretrained(policy, local_files_only=True)
    config = AutoConfig.from_pretrained(policy, local_files_only=True)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    for token_id in (tokenizer.pad_token_id, *ends):
        if isinstance(token_id, int):
            return token_id
    raise ValueError(
        f"{policy.name}: a reward model needs a padding token or an end token, but the "
        "tokenizer and the model have none"
    )
