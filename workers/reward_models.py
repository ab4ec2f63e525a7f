"""Learned scorers at work: reward models loaded from their sealed folders, a batch of texts at a time.

The only part of a scorer worker that loads torch, and only once a run asks for such a scorer.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import verify
from apps.rewards.scorers import Verdict
from apps.tasksets.messages import pictures_of
from workers.chat_encoder import ChatEncoder
from workers.trainer.lessons.reward_model import probe_scores

RESIDENT = 2  # models held in memory
AT_ONCE = 64  # texts in one forward pass
PROBE_GAP_ALLOWED = 1e-2  # of a score: bfloat16 weights on another device differ by rounding


class NotTheseWeights(Exception):
    """What was loaded does not score as the trainer's weights did."""


class LoadedModel:
    """A reward model and its tokenizer. Raises DamagedWeights or NotTheseWeights."""

    def __init__(self, folder: Path) -> None:
        probe = verify(folder).probe
        transformers_logging.disable_progress_bar()  # a station's log is no terminal
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.encoder = ChatEncoder(self.tokenizer)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype="float32", local_files_only=True, use_safetensors=True
        ).to(self.device)
        self.model.eval()
        self.context = getattr(self.model.config, "max_position_embeddings", None) or 0
        gaps = [abs(a - b) for a, b in zip(probe_scores(self.model, probe.token_ids), probe.logprobs, strict=True)]
        if max(gaps) > PROBE_GAP_ALLOWED:
            raise NotTheseWeights(f"{folder.name}: scores differ from the trainer's by {max(gaps):.3g}")

    def judge(self, questions: Sequence[tuple[list[dict], str]]) -> list[Verdict]:
        """A verdict for each (prompt, answer), in order; None for one that is longer than the model reads, or shows a picture."""
        if any(pictures_of(prompt) for prompt, _ in questions):
            blind = Verdict(None, "the reward model reads text alone, and the task shows a picture")
            read = iter(self.judge([question for question in questions if not pictures_of(question[0])]))
            return [blind if pictures_of(prompt) else next(read) for prompt, _ in questions]
        texts = [self._ids(prompt, answer) for prompt, answer in questions]
        fits = [n for n, ids in enumerate(texts) if not self.context or len(ids) <= self.context]
        scores: dict[int, float] = {}
        for start in range(0, len(fits), AT_ONCE):
            some = fits[start : start + AT_ONCE]
            scores |= dict(zip(some, self._scores([texts[n] for n in some]), strict=True))
        return [_verdict(scores.get(n), len(ids), self.context) for n, ids in enumerate(texts)]

    @torch.no_grad()
    def _scores(self, texts: list[list[int]]) -> list[float]:
        width, pad = max(map(len, texts)), self.model.config.pad_token_id
        ids = torch.tensor([text + [pad] * (width - len(text)) for text in texts], device=self.device)
        attention = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in texts], device=self.device)
        return self.model(input_ids=ids, attention_mask=attention).logits[:, 0].float().tolist()

    def _ids(self, prompt: list[dict], answer: str) -> list[int]:
        """As the reward model was trained: the prompt, the answer, the end."""
        asked = self.encoder.prompt_ids(prompt)
        return [*asked, *self.encoder.answer_ids(answer), self.tokenizer.eos_token_id]


class RewardModels:
    """The newest few models used, by folder."""

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
        return Verdict(None, f"{tokens} tokens, more than the {context} that the reward model reads")
    if not math.isfinite(score):
        return Verdict(None, "the reward model's score is not finite")
    return Verdict(1 / (1 + math.exp(-max(-700.0, min(700.0, score)))), f"scored {score:.3f}", {"score": score})
