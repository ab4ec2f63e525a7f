"""Untrained policies of a real model's sizes, and a comparison of engine and plain logprobs."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from apps.policies.manifest import Manifest
from bench.gpu.shapes import preset_config
from workers.engines.interface import Engine, Request, Sampling
from workers.policies import recipes
from workers.policies.saving import save_base

# For a walk through all parts on a machine without a GPU.
SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1_000,
    "max_position_embeddings": 2_048,
}
Reply = tuple[tuple[int, ...], list[int], list[float]]  # prompt, reply, logprobs of the reply


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def build_untrained(folder: Path, preset: str, small: bool, seed: int = 0) -> Manifest:
    """Seal an untrained policy of the sizes that a preset is made for."""
    recipe = recipes.find_recipe("sort")
    tokenizer = recipe.tokenizer()
    config = Qwen2Config(**{**preset_config(preset), **(SMALL if small else {})})
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    config.bos_token_id = None
    torch.manual_seed(seed)
    dtype = torch.float32 if small else torch.bfloat16
    with torch.device(device()):
        model = Qwen2ForCausalLM(config).to(dtype).eval()
    question, _ = next(recipe.demonstrate(seed))
    return save_base(model, tokenizer, folder, question)


def prompts(count: int, tokens: int, vocabulary: int = 1_000) -> list[tuple[int, ...]]:
    """Return texts of a given number of tokens; every fourth is the same."""
    draw = torch.Generator().manual_seed(1)
    texts = torch.randint(2, vocabulary, (max(1, count // 4), tokens), generator=draw).tolist()
    return [tuple(texts[number % len(texts)]) for number in range(count)]


def complete_replies(
    engine: Engine, question: Sequence[tuple[int, ...]], tokens: int, name: str
) -> list[Reply]:
    """Return every reply to its end."""
    replies: dict[str, Reply] = {
        f"{name}{number}": (prompt, [], []) for number, prompt in enumerate(question)
    }
    engine.submit(
        [Request(key, prompt, Sampling(tokens)) for key, (prompt, _, _) in replies.items()]
    )
    is_over = False
    while not is_over:
        is_over = not engine.in_flight()
        for delta in engine.drain(0.0 if is_over else 1.0):
            replies[delta.request_id][1].extend(delta.token_ids)
            replies[delta.request_id][2].extend(delta.logprobs)
    return list(replies.values())


@torch.no_grad()
def mean_gap(folder: Path, replies: Sequence[Reply]) -> float:
    """Return the mean absolute difference in nats between the engine's and float32 logprobs."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().to(device())
    gaps = []
    for prompt, reply, logprobs in replies:
        ids = torch.tensor([[*prompt, *reply]], device=model.device)
        all_logprobs = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        plain_logprobs = all_logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()
        gaps.append((plain_logprobs - torch.tensor(logprobs)).abs())
    del model
    return torch.cat(gaps).mean().item()
