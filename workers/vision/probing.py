"""Probe of a policy that sees: it shows a picture, to verify the vision encoder as well."""

import io
from collections.abc import Sequence

import torch
from PIL import Image

from apps.policies.manifest import Probe
from workers.policies.sampling import probe_logprobs
from workers.vision.image_processor import ImageProcessor

SIDE = 64  # pixels


def seeing_probe(
    model: torch.nn.Module, image_processor: ImageProcessor, token_ids: Sequence[int]
) -> Probe:
    """Return a probe of these tokens after a generated picture, with the model's logprobs."""
    prompt, pictures = image_processor.encode(image_processor.token, [chequered()])
    whole = (*prompt, *token_ids)
    return Probe(whole, tuple(probe_logprobs(model, whole, image_processor, pictures)), pictures)


def chequered() -> bytes:
    """Return a PNG of coloured squares, each different from its neighbours.

    No vision encoder makes the same of it as of a blank page.
    """
    image = Image.new("RGB", (SIDE, SIDE))
    for x in range(0, SIDE, 8):
        for y in range(0, SIDE, 8):
            image.paste((x * 4, y * 4, (x ^ y) * 4 % 256), (x, y, x + 8, y + 8))
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
