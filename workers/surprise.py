"""What a run's base policy, whose weights never change, makes of its rollouts: −log p of every token, and its own answer.

Only scorer workers of runs with a rater model load these, beside the learned scorers.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import verify
from workers.explorer.speaker import Speaker
from workers.policies.sampling import sample

RESIDENT = 2  # base policies held in memory
TOKENS_AT_ONCE = 16_384  # in one forward pass, padding included
ANSWERS_AT_ONCE = 64
Tokens = tuple[Sequence[int], Sequence[int]]  # prompt ids, completion ids


@dataclass(frozen=True)
class Answer:
    """What the base said to a prompt: its tokens, the end token included, and their text."""

    ids: list[int]
    logprobs: list[float]
    text: str


class Base:
    """The weights of version 0. Raises DamagedWeights, OSError."""

    def __init__(self, folder: Path) -> None:
        verify(folder)
        transformers_logging.disable_progress_bar()  # a station's log is no terminal
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True, use_safetensors=True).to(
            self.device
        )
        self.model.eval()
        speaker = Speaker(folder)
        self.tokenizer, self.ends = speaker.tokenizer, speaker.stop_token_ids

    def surprises(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Nats of each completion token, in the order of the rows; an empty completion has none."""
        order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]) + len(rows[n][1]))
        found: list[list[float]] = [[] for _ in rows]
        while order:
            width = sum(map(len, rows[order[-1]]))
            take = max(1, TOKENS_AT_ONCE // max(1, width))
            some, order = order[-take:], order[:-take]
            for n, values in zip(some, self._together([rows[n] for n in some], width), strict=True):
                found[n] = values
        return found

    def answers(
        self, prompts: Sequence[Sequence[int]], max_tokens: int, temperature: float, seeds: Sequence[int]
    ) -> list[Answer]:
        """One sampled answer to each prompt; each depends on its own seed alone."""
        said: list[Answer] = []
        for start in range(0, len(prompts), ANSWERS_AT_ONCE):
            some = [list(prompt) for prompt in prompts[start : start + ANSWERS_AT_ONCE]]
            own = seeds[start : start + ANSWERS_AT_ONCE]
            batch = sample(self.model, some, max_tokens, own, temperature, self.ends)
            for ids, logprobs in batch.rows():
                said.append(Answer(ids, logprobs, self.tokenizer.decode(ids, skip_special_tokens=True)))
        return said

    @torch.no_grad()
    def _together(self, rows: Sequence[Tokens], width: int) -> list[list[float]]:
        """Rows padded on the right, so that positions need no mask; what is behind a row's end is not read."""
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        for n, (prompt, completion) in enumerate(rows):
            ids[n, : len(prompt) + len(completion)] = torch.tensor([*prompt, *completion])
        ids = ids.to(self.device)
        logits = self.model(input_ids=ids).logits[:, :-1].float()
        said = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
        return [
            (-said[n, len(prompt) - 1 : len(prompt) + len(completion) - 1]).tolist() for n, (prompt, completion) in enumerate(rows)
        ]


class Bases:
    """The last few used, by folder."""

    def __init__(self) -> None:
        self.loaded: OrderedDict[Path, Base] = OrderedDict()

    def of(self, folder: Path) -> Base:
        if folder not in self.loaded:
            self.loaded[folder] = Base(folder)
        self.loaded.move_to_end(folder)
        while len(self.loaded) > RESIDENT:
            self.loaded.popitem(last=False)
        return self.loaded[folder]
