"""A reward model's weights: a policy whose last layer gives one number, the score of the text so far.

Its sealed folders are like a policy's. In place of logprobs the probe holds the scores after each token but the first.
"""

import os
import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from apps.policies.folder import MANIFEST
from apps.policies.manifest import Manifest, Probe, read_manifest, seal, verify
from workers import weights


def ensure_base(policy: Path, final: Path, seed: int) -> Path:
    """The policy's body under a fresh scalar head (drawn with `seed`), sealed as version 0 at `final`. Built once.

    Raises DamagedWeights when one that is there already is damaged.
    """
    if final.exists():
        verify(final)
        return final
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        policy, num_labels=1, pad_token_id=_pad_id(policy), dtype="float32", local_files_only=True, use_safetensors=True
    )
    like = read_manifest(policy)
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for name in like.files:
            if not name.endswith(weights.WEIGHT_FILES) and name not in (MANIFEST, "config.json", "generation_config.json"):
                shutil.copyfile(policy / name, unfinished / name)
        model.save_pretrained(unfinished)
        seal(unfinished, final, 0, None, Probe(like.probe.token_ids, tuple(probe_scores(model, like.probe.token_ids))))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return final


def publish(model: PreTrainedModel, base: Path, final: Path, version: int, parent: int | None) -> Manifest:
    """As `weights.publish`, with scores for the probe."""
    return weights.published(model, base, final, version, parent, write=weights.write_whole, probe=probe_scores)


@torch.no_grad()
def probe_scores(model: PreTrainedModel, token_ids: tuple[int, ...]) -> list[float]:
    """The score of the text up to each token, the first left out; one fewer than tokens."""
    ids = torch.tensor([token_ids], device=model.device)
    was_training = model.training
    model.eval()
    try:
        hidden = model.base_model(input_ids=ids).last_hidden_state
        return model.score(hidden)[0, 1:, 0].float().tolist()
    finally:
        model.train(was_training)


def _pad_id(policy: Path) -> int:
    """By which the head knows where a text ends; the configuration of a base model often lacks it."""
    tokenizer = AutoTokenizer.from_pretrained(policy, local_files_only=True)
    config = AutoConfig.from_pretrained(policy, local_files_only=True)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    for found in (tokenizer.pad_token_id, *ends):
        if isinstance(found, int):
            return found
    raise ValueError(f"{policy.name}: the tokenizer has no padding token, and the model no end token; a reward model needs one")
