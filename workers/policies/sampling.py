"""Sampling from a small model in one call, to measure a policy and to take its probe.

The explorer's engines stream, admit and abort; this does none of it and knows no state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel

from apps.policies.manifest import ShownPicture
from workers.engines.random_numbers import draw_tokens, uniforms
from workers.vision.image_processor import ImageProcessor
from workers.vision.merging import build_text_inputs


@dataclass(frozen=True)
class Batch:
    """Sampled tokens `ids` (B, T), right-padded after the end token.

    `logprobs` (B, T); `mask` (B, T), True for sampled tokens.
    """

    ids: torch.Tensor
    logprobs: torch.Tensor
    mask: torch.Tensor

    def rows(self) -> list[tuple[list[int], list[float]]]:
        """Return token ids and logprobs of each row without padding, the end token included."""
        lengths = self.mask.sum(1).tolist()
        return [
            (ids[:n], logps[:n])
            for ids, logps, n in zip(
                self.ids.tolist(), self.logprobs.tolist(), lengths, strict=True
            )
        ]


@torch.no_grad()
def sample_batch(
    model: PreTrainedModel,
    prompts: list[list[int]],
    max_tokens: int,
    seeds: Sequence[int],
    temperature: float = 1.0,
    ends: Sequence[int] | None = None,
) -> Batch:
    """Return one continuation per prompt, until an end token or `max_tokens`.

    The prompts are left-padded together. `seeds`: one per prompt; a continuation depends on its own
    alone. `ends`: the model's own if None.
    """
    pad = 0 if model.config.pad_token_id is None else model.config.pad_token_id
    end_ids = model.config.eos_token_id if ends is None else list(ends)
    stops = torch.tensor(end_ids, device=model.device).reshape(-1)  # some models have several
    own_seeds = torch.tensor(list(seeds), dtype=torch.long, device=model.device)
    ids, attention = _left_padded(prompts, pad, model.device)
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache()
    is_ended = torch.zeros(len(prompts), dtype=torch.bool, device=model.device)
    tokens = []
    logprobs = []
    mask = []
    for _ in range(max_tokens):
        output = model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits = output.logits[:, -1]  # (B, V)
        uniform = uniforms(own_seeds, positions[:, -1])
        token, logprob = draw_tokens(logits / temperature, uniform)
        mask.append(~is_ended)
        tokens.append(torch.where(is_ended, pad, token))
        logprobs.append(torch.where(is_ended, 0.0, logprob))
        is_ended = is_ended | torch.isin(token, stops)
        if bool(is_ended.all()):
            break
        ids = token[:, None]
        positions = positions[:, -1:] + 1
        attention = torch.cat([attention, attention.new_ones(len(prompts), 1)], 1)
    return Batch(torch.stack(tokens, 1), torch.stack(logprobs, 1), torch.stack(mask, 1))


def _left_padded(
    prompts: list[list[int]], pad: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the prompts as one tensor and its attention mask, both (B, T)."""
    width = max(map(len, prompts))
    ids = []
    attention = []
    for prompt in prompts:
        missing = width - len(prompt)
        ids.append([pad] * missing + prompt)
        attention.append([0] * missing + [1] * len(prompt))
    return torch.tensor(ids, device=device), torch.tensor(attention, device=device)


@torch.no_grad()
def probe_logprobs(
    model: torch.nn.Module,
    token_ids: Sequence[int],
    image_processor: ImageProcessor | None = None,
    pictures: Sequence[ShownPicture] = (),
) -> list[float]:
    """Return the logprob of each token given those before it, and the `pictures`.

    One fewer than tokens.
    """
    ids = torch.tensor([list(token_ids)], device=next(model.parameters()).device)
    inputs = build_text_inputs(model, image_processor, ids, [pictures])
    logits = model(**inputs).logits[0, :-1].float()  # (T - 1, V)
    logprobs = torch.log_softmax(logits, -1)
    return logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist()
