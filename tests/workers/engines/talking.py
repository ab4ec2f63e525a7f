"""Helpers for engine tests: policies, requests and replies, and an independent recomputation of
logprobs.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3ForCausalLM

from apps.policies.manifest import Manifest
from workers.engines.interface import Delta, Engine, Request, Sampling
from workers.policies import recipes
from workers.policies.saving import save_base

DEADLINE = 300.0  # seconds
LOUDNESS = 3.0  # a new model hardly depends on its context; larger weights reveal errors
# for tests that start their own engine: with vLLM this uses both cores for 20 to 60 seconds
nightly_with_vllm = pytest.mark.parametrize(
    "engine_kind",
    ["transformers", pytest.param("vllm", marks=[pytest.mark.vllm, pytest.mark.nightly])],
    indirect=True,
)


def build_loud(
    folder: Path,
    seed: int,
    tied: bool = True,
    hidden: int = 128,
    layers: int = 3,
    context: int = 128,
) -> Manifest:
    """Seal an untrained policy whose logprobs depend strongly on the whole context."""
    recipe = recipes.find_recipe("sort")
    tokenizer = recipe.tokenizer()
    config = recipe.config(tokenizer)
    config.hidden_size = hidden
    config.num_hidden_layers = layers
    config.tie_word_embeddings = tied
    config.layer_types = ["full_attention"] * layers
    config.max_position_embeddings = context
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(LOUDNESS)
    asked, _ = next(recipe.demonstrate(seed))
    return save_base(model, tokenizer, folder, asked)


@dataclass
class Reply:
    """All that an engine returned for one request, per token."""

    prompt_ids: tuple[int, ...]
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    stop_reason: str | None = None

    def take(self, delta: Delta) -> None:
        """Append a delta, after checking that none is missing before it."""
        assert self.stop_reason is None, "a delta arrived after the end"
        assert delta.offset == len(self.token_ids)
        assert len(delta.token_ids) == len(delta.logprobs)
        self.token_ids += delta.token_ids
        self.logprobs += delta.logprobs
        self.versions += [delta.version] * len(delta.token_ids)
        self.stop_reason = delta.stop_reason


class Talk:
    """Requests submitted together, and their replies."""

    def __init__(
        self, engine: Engine, prompts: list[tuple[int, ...]], sampling: Sampling, name: str = "r"
    ) -> None:
        self.engine = engine
        self.replies = {
            f"{name}{index}": Reply(tuple(prompt)) for index, prompt in enumerate(prompts)
        }
        engine.submit(
            [Request(key, reply.prompt_ids, sampling) for key, reply in self.replies.items()]
        )

    def until(self, enough: Callable[[], bool]) -> None:
        """Process deltas until `enough` returns true."""
        deadline = time.monotonic() + DEADLINE
        while not enough():
            assert time.monotonic() < deadline, "the engine took too long"
            for delta in self.engine.drain(0.2):
                self.replies[delta.request_id].take(delta)

    def begun(self) -> bool:
        return all(reply.token_ids for reply in self.replies.values())

    def ended(self) -> bool:
        return all(reply.stop_reason for reply in self.replies.values())

    def finish(self) -> list[Reply]:
        self.until(self.ended)
        return list(self.replies.values())


def ask(engine: Engine, prompts: list[tuple[int, ...]], sampling: Sampling) -> list[Reply]:
    """Submit the prompts and wait for all replies to end."""
    return Talk(engine, prompts, sampling).finish()


@torch.no_grad()
def recompute(model: PreTrainedModel, reply: Reply, temperature: float) -> torch.Tensor:
    """Return the logprob of each token of the reply, computed by one forward pass over the whole
    text, without cache or batch.
    """
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    logprobs = torch.log_softmax(model(ids).logits[0, :-1] / temperature, -1)
    return logprobs.gather(1, ids[0, 1:, None])[len(reply.prompt_ids) - 1 :, 0]


def gaps(
    folder: Path, replies: list[Reply], temperature: float = 1.0, version: int | None = None
) -> torch.Tensor:
    """Return the absolute differences between all reported logprobs (of one version's tokens) and
    the recomputed ones.
    """
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    differences = [torch.zeros(0)]
    for reply in replies:
        chosen = torch.tensor([version in (None, said_by) for said_by in reply.versions])
        differences.append(
            (torch.tensor(reply.logprobs) - recompute(model, reply, temperature)).abs()[chosen]
        )
    found = torch.cat(differences)
    assert len(found), "no token to compare"
    return found


@dataclass(frozen=True)
class Tolerance:
    """How far an engine's logprobs may be from fp32: on average, and at worst."""

    mean: float
    worst: float

    def holds(self, found: torch.Tensor) -> bool:
        return bool(
            found.mean() <= self.mean and found.max() <= self.worst and math.isfinite(found.sum())
        )
