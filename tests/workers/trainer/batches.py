"""Batches that depend only on the step, and a digest of everything that training changes."""

import hashlib
import random
from dataclasses import replace

from workers.trainer.collate import Row
from workers.trainer.host import TrainerHost


def rows(step: int, count: int = 12, tokens_of_tools: bool = False) -> list[Row]:
    """Return the batch of a step: rows of different lengths, with logprobs close to those of an
    untrained policy.
    """
    draw = random.Random(step)
    return [_row(draw, tokens_of_tools) for _ in range(count)]


def experts(step: int, count: int = 4, **fields: object) -> list[Row]:
    """Return rows that an expert wrote."""
    return [
        replace(row, kind="expert", **{"advantage": 0.0, **fields})
        for row in rows(1000 + step, count)
    ]


def _row(draw: random.Random, tokens_of_tools: bool) -> Row:
    length = draw.randint(2, 7)
    mask = [1] * length
    if tokens_of_tools:
        mask[draw.randrange(1, length)] = 0
    return Row(
        prompt_ids=tuple(draw.randrange(6, 20) for _ in range(draw.randint(3, 7))),
        completion_ids=tuple(draw.randrange(6, 20) for _ in range(length)),
        action_mask=tuple(mask),
        behaviour_logprobs=tuple(-3.0 + draw.gauss(0, 0.4) for _ in range(length)),
        advantage=draw.gauss(0, 1),
    )


def digest(host: TrainerHost) -> str:
    """Return the SHA-256 of names and bytes of all parameters."""
    total = hashlib.sha256()
    for name, parameter in host.trainer.model.named_parameters():
        total.update(name.encode() + parameter.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
