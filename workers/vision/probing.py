"""The probe of a policy that sees: it shows a picture, so that a tower that was not loaded shows as well."""

import io
from collections.abc import Sequence

import torch
from PIL import Image

from apps.policies.manifest import Probe
from workers.policies.sampling import probe_logprobs
from workers.vision.eyes import Eyes

SIDE = 64  # pixels


def seeing_probe(model: torch.nn.Module, eyes: Eyes, token_ids: Sequence[int]) -> Probe:
    """These tokens after a picture of our own, and what the model says about all of it."""
    prompt, shown = eyes.spell(eyes.token, [chequered()])
    whole = (*prompt, *token_ids)
    return Probe(whole, tuple(probe_logprobs(model, whole, eyes, shown)), shown)


def chequered() -> bytes:
    """PNG of coloured squares, each other than its neighbours: no tower makes the same of it as of a blank page."""
    image = Image.new("RGB", (SIDE, SIDE))
    for x in range(0, SIDE, 8):
        for y in range(0, SIDE, 8):
            image.paste((x * 4, y * 4, (x ^ y) * 4 % 256), (x, y, x + 8, y + 8))
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
