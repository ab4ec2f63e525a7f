"""Compute the base policy's NLL of rollouts, −log p of every token in nats, and sample its answers.

Its weights never change. Only scorer workers of runs with a rater model load these, beside the
learned scorers.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import verify_folder
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.fast_linear import use_fast_linear
from workers.policies.sampling import sample_batch
from workers.trainer import packing
from workers.trainer.dropout import disable_dropout

RESIDENT = 2  # base policies held in memory
TOKENS_AT_ONCE = 16_384  # tokens of one forward pass, padding included
LOGITS_AT_ONCE = 1 << 24  # 64 MiB of float32
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
        disable_dropout(self.model)  # it is off in evaluation, but would prevent packing
        packing.prepare_packing(self.model)
        chat_tokenizer = ChatTokenizer(folder)
        self.tokenizer = chat_tokenizer.tokenizer
        self.ends = chat_tokenizer.stop_token_ids

    def nlls(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Return −log p in nats of each completion token, per row; an empty completion has none."""
        rows_of_nlls: list[list[float]] = [[] for _ in rows]
        # Replies to one prompt stand together, so that a pass computes their prompt once.
        order = sorted((n for n, row in enumerate(rows) if row[1]), key=lambda n: rows[n])
        for some in _split_into_passes(rows, order):
            chosen_rows = [rows[n] for n in some]
            for n, values in zip(some, self._nlls_of_pass(chosen_rows), strict=True):
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
    def _nlls_of_pass(self, rows: Sequence[Tokens]) -> list[list[float]]:
        if packing.packs_rows(self.model):
            return self._packed_nlls(rows)
        return self._padded_nlls(rows)

    def _packed_nlls(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Compute each distinct beginning of the rows once, and logits only before replies."""
        packed = packing.Packing.of([[*prompt, *completion[:-1]] for prompt, completion in rows])
        before = torch.cat(
            [
                packed.places[n, len(prompt) - 1 : len(prompt) - 1 + len(completion)]
                for n, (prompt, completion) in enumerate(rows)
            ]
        )
        device = torch.device(self.device)
        hidden = packing.hidden_states(self.model.base_model, packed.to(device))
        targets = torch.tensor([token for _, completion in rows for token in completion])
        head = self.model.get_output_embeddings()
        at_once = max(1, LOGITS_AT_ONCE // self.model.config.vocab_size)
        parts = [
            _nll(head(hidden[places]), tokens)
            for places, tokens in zip(
                before.to(self.device).split(at_once),
                targets.to(self.device).split(at_once),
                strict=True,
            )
        ]
        lengths = [len(completion) for _, completion in rows]
        return [values.tolist() for values in torch.cat(parts).split(lengths)]

    def _padded_nlls(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Compute rows padded on the right, so that positions need no mask.

        What is behind a row's end is not read.
        """
        width = max(sum(map(len, row)) for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        for n, (prompt, completion) in enumerate(rows):
            ids[n, : len(prompt) + len(completion)] = torch.tensor([*prompt, *completion])
        ids = ids.to(self.device)
        # Column t holds the NLL of token t + 1.
        nll = _nll(self.model(input_ids=ids).logits[:, :-1], ids[:, 1:])
        nlls = []
        for n, (prompt, completion) in enumerate(rows):
            first = len(prompt) - 1
            nlls.append(nll[n, first : first + len(completion)].tolist())
        return nlls


def _split_into_passes(rows: Sequence[Tokens], order: Sequence[int]) -> Iterator[list[int]]:
    """Yield the row numbers of each pass, in this order; a longer row has a pass of its own."""
    some: list[int] = []
    width = 0
    for n in order:
        wider = max(width, sum(map(len, rows[n])))
        if some and wider * (len(some) + 1) > TOKENS_AT_ONCE:
            yield some
            some = []
            wider = sum(map(len, rows[n]))
        some.append(n)
        width = wider
    if some:
        yield some


def _nll(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return −log p in nats of the targets (…); the logits are (…, vocabulary)."""
    logits = logits.float()
    return logits.logsumexp(-1) - logits.gather(-1, targets[..., None])[..., 0]


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
