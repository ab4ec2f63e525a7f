"""Compute the base policy's NLL of rollouts, −log p of every token in nats, and sample its answers.

Its weights never change. Only scorer workers of runs with a rater model load these, beside the
learned scorers.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import verify_folder
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.fast_linear import use_fast_linear
from workers.policies.sampling import sample_batch

RESIDENT = 2  # base policies held in memory
TOKENS_AT_ONCE = 16_384  # tokens of one forward pass, padding included
ANSWERS_AT_ONCE = 64
Tokens = tuple[Sequence[int], Sequence[int]]  # prompt ids, completion ids


@dataclass(frozen=True)
class Answer:
    """Answer of the base policy: its tokens, the end token included, and their text."""

    ids: list[int]
    logprobs: list[float]
    text: str


class BasePolicy:
    """Weights of version 0. Raises DamagedWeights and OSError."""

    def __init__(self, folder: Path) -> None:
        verify_folder(folder)
        transformers_logging.disable_progress_bar()  # a worker's log is no terminal
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype="float32", local_files_only=True, use_safetensors=True
        )
        torch.nn.Module.to(self.model, self.device)  # the wrapped `to` of transformers hides types
        self.model.eval()
        use_fast_linear(self.model)
        chat_tokenizer = ChatTokenizer(folder)
        self.tokenizer = chat_tokenizer.tokenizer
        self.ends = chat_tokenizer.stop_token_ids

    def nlls(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Return −log p in nats of each completion token, per row; an empty completion has none."""
        order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]) + len(rows[n][1]))
        rows_of_nlls: list[list[float]] = [[] for _ in rows]
        while order:
            width = sum(map(len, rows[order[-1]]))
            take = max(1, TOKENS_AT_ONCE // max(1, width))
            some = order[-take:]
            order = order[:-take]
            for n, values in zip(some, self._together([rows[n] for n in some], width), strict=True):
                rows_of_nlls[n] = values
        return rows_of_nlls

    def answers(
        self,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        temperature: float,
        seeds: Sequence[int],
    ) -> list[Answer]:
        """Sample one answer to each prompt; each depends on its own seed alone."""
        sampled: list[Answer] = []
        for start in range(0, len(prompts), ANSWERS_AT_ONCE):
            some = [list(prompt) for prompt in prompts[start : start + ANSWERS_AT_ONCE]]
            batch_seeds = seeds[start : start + ANSWERS_AT_ONCE]
            batch = sample_batch(self.model, some, max_tokens, batch_seeds, temperature, self.ends)
            for ids, logprobs in batch.rows():
                text = str(self.tokenizer.decode(ids, skip_special_tokens=True))
                sampled.append(Answer(ids, logprobs, text))
        return sampled

    @torch.no_grad()
    def _together(self, rows: Sequence[Tokens], width: int) -> list[list[float]]:
        """Compute rows padded on the right, so that positions need no mask.

        What is behind a row's end is not read.
        """
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        for n, (prompt, completion) in enumerate(rows):
            ids[n, : len(prompt) + len(completion)] = torch.tensor([*prompt, *completion])
        ids = ids.to(self.device)
        logits = self.model(input_ids=ids).logits[:, :-1].float()
        chosen = logits.gather(2, ids[:, 1:, None])[..., 0]
        nll = logits.logsumexp(2) - chosen
        # Column t holds the NLL of token t + 1.
        nlls = []
        for n, (prompt, completion) in enumerate(rows):
            first = len(prompt) - 1
            nlls.append(nll[n, first : first + len(completion)].tolist())
        return nlls


class BasePolicies:
    """A cache of the most recently used base policies, by folder."""

    def __init__(self) -> None:
        self.loaded: OrderedDict[Path, BasePolicy] = OrderedDict()

    def of(self, folder: Path) -> BasePolicy:
        if folder not in self.loaded:
            self.loaded[folder] = BasePolicy(folder)
        self.loaded.move_to_end(folder)
        while len(self.loaded) > RESIDENT:
            self.loaded.popitem(last=False)
        return self.loaded[folder]
