"""Learned scorers: reward models loaded from their sealed folders, applied to batches of texts.

The only part of a scorer worker that loads torch, and only once a run asks for such a scorer.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import verify_folder
from apps.rewards.scorers import Verdict
from apps.tasksets.messages import list_pictures
from workers.chat_encoder import ChatEncoder, Message
from workers.fast_linear import use_fast_linear
from workers.trainer.lessons.reward_model import probe_scores

RESIDENT = 2  # models held in memory
AT_ONCE = 64  # texts in one forward pass
# Difference of a score: bfloat16 weights on another device differ by rounding.
PROBE_GAP_ALLOWED = 1e-2


class NotTheseWeights(Exception):
    """An error for a loaded model whose scores differ from those of the trainer's weights."""


class LoadedModel:
    """A reward model and its tokenizer. Raises DamagedWeights or NotTheseWeights."""

    def __init__(self, folder: Path) -> None:
        probe = verify_folder(folder).probe
        transformers_logging.disable_progress_bar()  # a worker's log is no terminal
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.encoder = ChatEncoder(self.tokenizer)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype="float32", local_files_only=True, use_safetensors=True
        ).to(self.device)
        self.model.eval()
        use_fast_linear(self.model)
        self.context = getattr(self.model.config, "max_position_embeddings", None) or 0
        gaps = [
            abs(a - b)
            for a, b in zip(probe_scores(self.model, probe.token_ids), probe.logprobs, strict=True)
        ]
        if max(gaps) > PROBE_GAP_ALLOWED:
            raise NotTheseWeights(
                f"{folder.name}: scores differ from the trainer's by {max(gaps):.3g}"
            )

    def judge(self, questions: Sequence[tuple[Sequence[Message], str]]) -> list[Verdict]:
        """Return a verdict for each (prompt, answer), in order.

        None stands for one that is longer than the model's context, or shows a picture.
        """
        if any(list_pictures(prompt) for prompt, _ in questions):
            blind = Verdict(
                None, ("the reward model supports only text, but the task contains an image")
            )
            read = iter(
                self.judge([question for question in questions if not list_pictures(question[0])])
            )
            return [blind if list_pictures(prompt) else next(read) for prompt, _ in questions]
        texts = [self._ids(prompt, answer) for prompt, answer in questions]
        fits = [n for n, ids in enumerate(texts) if not self.context or len(ids) <= self.context]
        scores: dict[int, float] = {}
        for start in range(0, len(fits), AT_ONCE):
            some = fits[start : start + AT_ONCE]
            scores |= dict(zip(some, self._scores([texts[n] for n in some]), strict=True))
        return [_verdict(scores.get(n), len(ids), self.context) for n, ids in enumerate(texts)]

    @torch.no_grad()
    def _scores(self, texts: list[list[int]]) -> list[float]:
        width = max(map(len, texts))
        pad = self.model.config.pad_token_id
        ids = torch.tensor(
            [text + [pad] * (width - len(text)) for text in texts], device=self.device
        )
        attention = torch.tensor(
            [[1] * len(text) + [0] * (width - len(text)) for text in texts], device=self.device
        )
        logits = self.model(input_ids=ids, attention_mask=attention).logits
        scores: list[float] = logits[:, 0].float().tolist()
        return scores

    def _ids(self, prompt: Sequence[Message], answer: str) -> list[int]:
        """Return prompt, answer and end token, encoded as in the reward model's training."""
        question = self.encoder.prompt_ids(prompt)
        return [*question, *self.encoder.answer_ids(answer), self.tokenizer.eos_token_id]


class RewardModels:
    """A cache of the most recently used models, by folder."""

    def __init__(self) -> None:
        self.loaded: OrderedDict[Path, LoadedModel] = OrderedDict()

    def of(self, folder: Path) -> LoadedModel:
        if folder not in self.loaded:
            self.loaded[folder] = LoadedModel(folder)
        self.loaded.move_to_end(folder)
        while len(self.loaded) > RESIDENT:
            self.loaded.popitem(last=False)
        return self.loaded[folder]


def _verdict(score: float | None, tokens: int, context: int) -> Verdict:
    if score is None:
        return Verdict(None, f"{tokens} tokens exceed the reward model's context of {context}")
    if not math.isfinite(score):
        return Verdict(None, "the reward model's score is not finite")
    return Verdict(
        1 / (1 + math.exp(-max(-700.0, min(700.0, score)))), f"scored {score:.3f}", {"score": score}
    )
