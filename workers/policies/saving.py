"""Writing a model and its tokenizer as a sealed policy folder, version 0."""

import os
import shutil
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import Manifest, Probe, seal_folder
from workers.policies.sampling import probe_logprobs, sample_batch
from workers.policies.warming import prompt_ids

PROBE_TOKENS = 32


def save_base(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, final: Path, question: str
) -> Manifest:
    """Write beside `final`, seal, rename; the probe is one sampled answer to `question`."""
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    transformers_logging.disable_progress_bar()
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    return seal_folder(
        unfinished,
        final,
        version=0,
        parent=None,
        probe=_probe(model, prompt_ids(tokenizer, question)),
    )


def _probe(model: PreTrainedModel, prompt: list[int]) -> Probe:
    ((reply, _),) = sample_batch(model, [prompt], PROBE_TOKENS, seeds=[0]).rows()
    token_ids = prompt + reply
    return Probe(tuple(token_ids), tuple(probe_logprobs(model, token_ids)))
