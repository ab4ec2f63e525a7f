"""Logprobs of the engine and of the trainer are compared with those of one pass over each text.

They must be equal for every architecture that both accept: the ratio of the two is what is learned
from. Texts are longer than a sliding window, and prompts differ in length.
"""

from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from workers.engines.decoding import Decoder
from workers.engines.interface import Request, Sampling
from workers.engines.live_policy import LivePolicy
from workers.policies import recipes
from workers.policies.saving import save_base
from workers.trainer import forward
from workers.trainer.collate import Row, collate

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": None,
}
SMALL_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": 16,
    "factor": 8.0,
    "short_factor": [1.0] * 4,
    "long_factor": [40.0] * 4,
}
# Besides the usual: windows with and without `layer_types`, dropout, learned positions that cannot
# be packed, rotary angles that depend on the length, and heads that scale or cap logits.
ARCHITECTURES = {
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 12, "head_dim": 8},
    "phi3": {"sliding_window": 12},
    "qwen2": {"use_sliding_window": False, "sliding_window": 12},
    "gemma2": {"sliding_window": 12, "head_dim": 8, "final_logit_softcapping": 5.0},
    "cohere": {"logit_scale": 0.3},
    "gpt2": SMALL_GPT,
    "biogpt": {},
    "seed_oss": {"head_dim": 8},
    "llama": {"rope_parameters": LONG},
}
PROMPT_LENGTHS = (3, 9, 5)
REPLY_TOKENS = 20
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def tokenizer():
    return recipes.find_recipe("sort").tokenizer()


@pytest.fixture(params=ARCHITECTURES)
def folder(request, tokenizer, tmp_path) -> Path:
    """Seal a policy of the architecture with random weights, which are sure of some tokens."""
    kind = request.param
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    options = {**SHAPE, **ids, "vocab_size": len(tokenizer) + 5, **ARCHITECTURES[kind]}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**options)).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and parameter.std() < 0.1:
                parameter.mul_(6)
    save_base(model, tokenizer, tmp_path / "policy", "12345")
    return tmp_path / "policy"


def sampled_rows(folder: Path, tokens: int) -> list[Row]:
    """Sample a reply to each prompt with the engine, as rows with the engine's logprobs."""
    generator = torch.Generator().manual_seed(1)
    prompts = [
        tuple(torch.randint(4, tokens, (length,), generator=generator).tolist())
        for length in PROMPT_LENGTHS
    ]
    ids: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    with torch.inference_mode():
        decoder = Decoder(LivePolicy.read(folder, 0, torch.device("cpu"), "float32"), seed=0)
        sampling = Sampling(REPLY_TOKENS, 1.0, (), 7)
        decoder.enqueue([Request(str(n), prompt, sampling) for n, prompt in enumerate(prompts)])
        while decoder.busy:
            decoder.step()
        for delta in decoder.take_news():
            ids[int(delta.request_id)] += delta.token_ids
            logprobs[int(delta.request_id)] += delta.logprobs
    return [
        Row(prompt, tuple(reply), (1,) * len(reply), tuple(values), 1.0)
        for prompt, reply, values in zip(prompts, ids, logprobs, strict=True)
    ]


def exact_logprobs(folder: Path, row: Row) -> torch.Tensor:
    """Return the logprobs of a row's reply by one pass over the unpadded text."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    text = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    with torch.no_grad():
        scores = model(text, use_cache=False).logits[0, :-1].log_softmax(-1)
    return scores.gather(1, text[0, 1:, None])[len(row.prompt_ids) - 1 :, 0]


def test_engine_and_trainer_compute_the_logprobs_of_one_pass_over_the_text(folder, tokenizer):
    rows = sampled_rows(folder, len(tokenizer))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    forward.prepare_scoring(model)

    trained, _ = forward.score(model, collate(rows, tokenizer.pad_token_id))

    for row, scores in zip(rows, trained.detach(), strict=True):
        exact = exact_logprobs(folder, row)
        assert (torch.tensor(row.behaviour_logprobs) - exact).abs().max() < ROUNDING
        assert (scores[: len(exact)] - exact).abs().max() < ROUNDING
