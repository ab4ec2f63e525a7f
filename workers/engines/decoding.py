"""Generate tokens for many requests at once: admit, step, retire.

One thread owns a decoder, in inference mode. A prompt is prefilled up to its last token, which then
goes through the same step as the newest token of every other row. So admission needs no sampling of
its own, and new weights are adopted by prefilling every row again.
"""

from collections import deque

import torch
from transformers import DynamicCache

from apps.policies.manifest import ShownPicture
from workers.engines.interface import Delta, Request
from workers.engines.kv_cache import Slots
from workers.engines.live_policy import LivePolicy
from workers.engines.random_numbers import Seeds, draw_tokens
from workers.engines.rows import HELD_STEPS, Row, Rows

MAX_ROWS = 256
PREFILL_TOKENS = 16_384  # in one forward pass
ADMIT_TOGETHER = 32  # rows; prefilling one row costs as much as prefilling many

Text = tuple[tuple[int, ...], tuple[ShownPicture, ...]]  # tokens, and the pictures among them


class Decoder:
    """Decoder of rows under one live policy; its output waits in `news` until taken."""

    def __init__(self, policy: LivePolicy, seed: int | None = None) -> None:
        self.policy = policy
        self.seeds = Seeds(seed)
        self.rows = Rows(MAX_ROWS, policy.device)
        self.slots = Slots(policy.layers, policy.device)
        self.columns = torch.arange(policy.context, device=policy.device)
        self.waiting: deque[Row] = deque()
        self.news: list[Delta] = []
        self.has_awaited_end = False  # in the news, of a request that a caller waits for

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.rows.rows)

    # -- requests

    def enqueue(self, requests: list[Request]) -> None:
        """Queue requests, to be admitted when there is room.

        A prompt that leaves no room for a reply ends at once with stop reason "error".
        """
        for request in requests:
            limit = min(request.sampling.max_tokens, self.policy.context - len(request.prompt_ids))
            if limit < 1:
                self.news.append(Delta(request.id, 0, (), (), self.policy.version, "error"))
            else:
                seed = request.sampling.seed
                seed = self.seeds.next() if seed is None else seed
                self.waiting.append(Row(request, limit, list(request.prompt_ids), seed))

    def abort(self, ids: set[str]) -> None:
        """End these requests with the tokens that they have so far."""
        for row in [row for row in self.waiting if row.request.id in ids]:
            self.waiting.remove(row)
            self.news.append(row.delta([], [], self.policy.version, "abort"))
        indices = [index for index, row in enumerate(self.rows.rows) if row.request.id in ids]
        if indices:
            self._retire(indices, self.rows.end(indices, self.policy.version, "abort"))

    def take_news(self) -> list[Delta]:
        """Return all tokens and ends of requests so far."""
        news = self.news + (self.rows.harvest(self.policy.version) if self.rows.column else [])
        self.news = []
        self.has_awaited_end = False
        return news

    # -- weights

    def exchange(self, policy: LivePolicy) -> None:
        """Continue under other weights of the same model.

        The tokens sampled so far are reported under the old version.
        """
        self.news = self.take_news()
        self.policy = policy
        self._prefill(range(len(self.rows)))

    # -- generation

    def step(self) -> None:
        """Admit waiting requests, then sample one token for every row."""
        self._admit()
        if not len(self.rows):
            return
        ended = self.rows.record(*self._sample(self._logits()))
        if ended:
            self._retire(ended, self.rows.end(ended, self.policy.version))
        if self.rows.column == HELD_STEPS:
            self.news += self.rows.harvest(self.policy.version)

    def _admit(self) -> None:
        room = MAX_ROWS - len(self.rows)
        if self.waiting and room >= min(len(self.waiting), ADMIT_TOGETHER):
            self._prefill(
                self.rows.add([self.waiting.popleft() for _ in range(min(room, len(self.waiting)))])
            )

    def _retire(self, indices: list[int], last: list[Delta]) -> None:
        self.news += last
        self.has_awaited_end |= any(self.rows.rows[index].request.is_awaited for index in indices)
        to, source = self.rows.remove(indices)
        if to:
            self.slots.move(to, source)

    def _prefill(self, indices: range) -> None:
        """Fill the slots of these rows.

        Rows with equal texts (the rows of a group share their prompt) are computed once.
        """
        owners: dict[Text, list[int]] = {}
        for index in indices:
            row = self.rows.rows[index]
            if cached := tuple(row.token_ids[:-1]):
                owners.setdefault((cached, row.request.pictures), []).append(index)
        for texts in _chunks(sorted(owners, key=lambda text: len(text[0]))):
            width = len(texts[-1][0])
            # Padding is on the right: causal attention never reads it, and its columns are
            # overwritten before a later token attends to them.
            ids = torch.tensor(
                [[*tokens, *[0] * (width - len(tokens))] for tokens, _ in texts],
                device=self.policy.device,
            )
            cache = DynamicCache()
            read = self.policy.text(ids, [pictures for _, pictures in texts])
            self.policy.module.base_model(**read, past_key_values=cache, use_cache=True)
            self.slots.write(cache, [owners[text] for text in texts])

    def _logits(self) -> torch.Tensor:
        """Return the float32 logits after the newest token of each row, (R, vocabulary)."""
        n = len(self.rows)
        positions = self.rows.positions[:n]
        width = self.slots.point(positions)
        later = self.columns[:width] > positions[:, None]
        # A mask that is added to the scores: a boolean mask would be converted in every layer.
        mask = torch.zeros(n, width, dtype=self.policy.module.dtype, device=self.policy.device)
        mask.masked_fill_(later, -torch.inf)
        output = self.policy.module(
            input_ids=self.rows.next_ids[:n, None],
            attention_mask=mask[:, None, None],
            position_ids=positions[:, None],
            past_key_values=self.slots.cache,
            use_cache=True,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits.float()

    def _sample(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one token per row, and its logprob after temperature, both (R,)."""
        scaled = logits / self.rows.temperatures[: len(logits)]
        return draw_tokens(scaled, self.rows.uniforms)


def _chunks(texts: list[Text]) -> list[list[Text]]:
    """Cut texts, sorted by length, into batches of at most PREFILL_TOKENS including padding.

    A longer text gets a batch of its own.
    """
    chunks: list[list[Text]] = []
    for text in texts:
        if not chunks or (len(chunks[-1]) + 1) * len(text[0]) > PREFILL_TOKENS:
            chunks.append([])
        chunks[-1].append(text)
    return chunks
