"""Rows that are being generated: their tensors on the device and their tokens in Python.

Rows are numbered from 0 without gaps. Tokens are gathered on the device and moved to Python a few
steps at a time, so that there is little Python work for each token.
"""

from dataclasses import dataclass, field

import torch

from workers.engines.interface import Delta, Request, StopReason
from workers.engines.random_numbers import uniforms

HELD_STEPS = 8  # at most so many steps are gathered on the device
NO_TOKEN = -1


@dataclass(eq=False)
class Row:
    """One request: its text so far, and the step from which the device's tokens belong to it."""

    request: Request
    limit: int  # tokens that it may generate, counted when it is admitted
    token_ids: list[int]  # prompt and reply
    seed: int  # seed of its random numbers
    since: int = 0  # its first column among the gathered steps

    def delta(
        self,
        token_ids: list[int],
        logprobs: list[float],
        version: int,
        stop_reason: StopReason | None,
    ) -> Delta:
        """Append these tokens to the row, and return them as a Delta."""
        offset = len(self.token_ids) - len(self.request.prompt_ids)
        self.token_ids += token_ids
        return Delta(
            self.request.id, offset, tuple(token_ids), tuple(logprobs), version, stop_reason
        )


@dataclass
class Rows:
    """Device tensors of `capacity` rows, of which the first `len(self.rows)` are in use."""

    capacity: int
    device: torch.device
    rows: list[Row] = field(default_factory=list)
    column: int = 0  # steps gathered

    def __post_init__(self) -> None:
        self.next_ids, self.positions, self.left = (self._zeros() for _ in range(3))
        self.seeds = self._zeros()
        self.temperatures = torch.ones(self.capacity, 1, device=self.device)
        self.stop_ids = self._zeros(1).fill_(NO_TOKEN)
        self.said_ids = self._zeros(HELD_STEPS)
        # Random numbers of the steps until the next harvest, computed together: this saves a dozen
        # small operations at each step.
        self.steps = torch.arange(HELD_STEPS, device=self.device)
        self.noise = torch.zeros(self.capacity, HELD_STEPS, dtype=torch.float64, device=self.device)
        self.said_logprobs = torch.zeros(self.capacity, HELD_STEPS, device=self.device)

    def _zeros(self, *width: int) -> torch.Tensor:
        return torch.zeros(self.capacity, *width, dtype=torch.long, device=self.device)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, new: list[Row]) -> range:
        """Append rows, and return their indices.

        The last token of each row is the next to go through the model.
        """
        at = range(len(self.rows), len(self.rows) + len(new))
        span = slice(at.start, at.stop)
        self.next_ids[span] = self._tensor([row.token_ids[-1] for row in new])
        self.positions[span] = self._tensor([len(row.token_ids) - 1 for row in new])
        self.left[span] = self._tensor([row.limit for row in new])
        self.seeds[span] = self._tensor([row.seed for row in new])
        self.temperatures[span, 0] = torch.tensor(
            [row.request.sampling.temperature for row in new], device=self.device
        )
        self._set_stops(span, [row.request.sampling.stop_token_ids for row in new])
        self._make_noise(span)
        for row in new:
            row.since = self.column
        self.rows += new
        return at

    @property
    def uniforms(self) -> torch.Tensor:
        """Return one random number in [0, 1) for each row's next token, (R,)."""
        return self.noise[: len(self.rows), self.column]

    def _make_noise(self, span: slice) -> None:
        places = self.positions[span, None] - self.column + self.steps
        self.noise[span] = uniforms(self.seeds[span, None], places)

    def _set_stops(self, span: slice, stops: list[tuple[int, ...]]) -> None:
        missing = max(map(len, stops)) - self.stop_ids.shape[1]
        if missing > 0:
            self.stop_ids = torch.nn.functional.pad(self.stop_ids, (0, missing), value=NO_TOKEN)
        width = self.stop_ids.shape[1]
        self.stop_ids[span] = self._tensor(
            [[*ids, *[NO_TOKEN] * (width - len(ids))] for ids in stops]
        )

    def record(self, token_ids: torch.Tensor, logprobs: torch.Tensor) -> list[int]:
        """Store a step's tokens and logprobs, both (R,); return the rows that ended with it."""
        n = len(self.rows)
        self.said_ids[:n, self.column] = token_ids
        self.said_logprobs[:n, self.column] = logprobs
        self.next_ids[:n] = token_ids
        self.positions[:n] += 1
        self.left[:n] -= 1
        self.column += 1
        ended = (token_ids[:, None] == self.stop_ids[:n]).any(1) | (self.left[:n] <= 0)
        return ended.nonzero()[:, 0].tolist()

    def harvest(self, version: int) -> list[Delta]:
        """Move all gathered steps to Python; return a delta for each row with new tokens."""
        sampled = self._sampled_columns(slice(0, len(self.rows)))
        self.column = 0
        self._make_noise(slice(0, len(self.rows)))
        deltas = [
            row.delta(ids[row.since :], logprobs[row.since :], version, None)
            for row, ids, logprobs in zip(self.rows, *sampled, strict=True)
        ]
        for row in self.rows:
            row.since = 0
        return [delta for delta in deltas if delta.token_ids]

    def end(
        self, indices: list[int], version: int, reason: StopReason | None = None
    ) -> list[Delta]:
        """Return the last deltas of these rows.

        Without a `reason`, a row's last token decides its stop reason.
        """
        sampled = self._sampled_columns(self._tensor(indices))
        deltas = []
        for row, ids, logprobs in zip(
            (self.rows[index] for index in indices), *sampled, strict=True
        ):
            new = ids[row.since :]
            why = reason or ("stop" if new[-1] in row.request.sampling.stop_token_ids else "length")
            deltas.append(row.delta(new, logprobs[row.since :], version, why))
        return deltas

    def remove(self, indices: list[int]) -> tuple[list[int], list[int]]:
        """Close the gaps with the last rows.

        Returns which rows were overwritten (to), and by which rows (source).
        """
        removed = set(indices)
        remaining_count = len(self.rows) - len(removed)
        to = [index for index in indices if index < remaining_count]
        source = [index for index in range(remaining_count, len(self.rows)) if index not in removed]
        if to:
            self._copy(self._tensor(to), self._tensor(source))
        for hole, filler in zip(to, source, strict=True):
            self.rows[hole] = self.rows[filler]
        del self.rows[remaining_count:]
        return to, source

    def _copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        numbers = (self.next_ids, self.positions, self.left, self.seeds, self.noise)
        texts = (self.temperatures, self.stop_ids, self.said_ids, self.said_logprobs)
        for tensor in (*numbers, *texts):
            tensor[to] = tensor[source]

    def _sampled_columns(
        self, rows: slice | torch.Tensor
    ) -> tuple[list[list[int]], list[list[float]]]:
        logprobs = self.said_logprobs[rows, : self.column]
        if not bool(logprobs.isfinite().all()):
            raise FloatingPointError("the model's logits are not finite")
        return self.said_ids[rows, : self.column].tolist(), logprobs.tolist()

    def _tensor(self, values: list[int] | list[list[int]]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)
