"""A policy's own processor: prompts with pictures in tokens, and pictures as the numbers its tower reads.

The processor that reads with PIL is taken wherever it is there, so that an engine on one machine and a trainer on another
see the same numbers. Names relied on in transformers 5.19: `AutoProcessor.from_pretrained(backend="pil")`; of a processor
`image_token`, `image_token_id`, `tokenizer`, and its call with `text`, `images`, `add_special_tokens`.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoProcessor
from transformers.utils import logging as transformers_logging

from apps.policies.manifest import Shown
from workers.vision.loading import config_of, require_read, sees_in

REMEMBERED = 256  # pictures whose numbers stay in memory
MOST_PIXELS = 1 << 24  # of a picture; larger ones are refused by their header
PICTURE_INPUTS = ("pixel_values", "image_sizes", "pixel_attention_mask")  # the others are about the text


@dataclass(frozen=True)
class Look:
    """One picture by itself: the tokens that stand for it in a text, and what the tower reads, a batch of one."""

    token_ids: tuple[int, ...]
    pixels: dict[str, torch.Tensor]


class Unreadable(ValueError):
    """The prompt or a picture of it cannot be shown to the policy; the message says why."""


class Eyes:
    """Raises CannotSee for a policy that sees in a way that is not known here, OSError where its processor is not there."""

    def __init__(self, folder: Path) -> None:
        require_read(config_of(folder))
        transformers_logging.set_verbosity_error()  # a page of notes on torchvision, which nothing here needs
        self.processor = AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False, backend="pil")
        self.token, self.token_id = self.processor.image_token, self.processor.image_token_id
        self.look = lru_cache(REMEMBERED)(self._look)

    @classmethod
    def of(cls, folder: Path) -> "Eyes | None":
        """None for a policy that sees nothing."""
        return cls(folder) if sees_in(folder) else None

    def spell(
        self, text: str, pngs: Sequence[bytes], offset: int = 0, begins: bool = False
    ) -> tuple[tuple[int, ...], tuple[Shown, ...]]:
        """A text of our own with the policy's picture token once for each picture, in tokens, and where each picture is.

        The tokens are those of the processor itself: the text's, each picture token spread to what stands for its picture.
        `offset`: tokens before it, which the places count. `begins`: the tokenizer's own first token stands before it, unless
        the text says that itself, as the processor has it. Raises Unreadable.
        """
        tokenizer = self.processor.tokenizer
        is_begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        tokenized = tokenizer.encode(text, add_special_tokens=begins and not is_begun)
        return self.spread(tokenized, pngs, offset)

    def spread(
        self, tokenized: Sequence[int], pngs: Sequence[bytes], offset: int = 0
    ) -> tuple[tuple[int, ...], tuple[Shown, ...]]:
        """Spread each picture token to those that stand for its picture. Raises Unreadable."""
        token_ids: list[int] = []
        shown: list[Shown] = []
        left = list(pngs)
        if (marks := tokenized.count(self.token_id)) != len(pngs):
            raise Unreadable(
                f"the prompt says {self.token}, which the policy reads as a picture, {marks} times and shows {len(pngs)} pictures"
            )
        for token in tokenized:
            if token != self.token_id:
                token_ids.append(token)
                continue
            first = offset + len(token_ids)
            token_ids += self.look(left[0]).token_ids
            shown.append(Shown(left.pop(0), first, offset + len(token_ids)))
        return tuple(token_ids), tuple(shown)

    def require(self, token_ids: Sequence[int], shown: Sequence[Shown]) -> None:
        """Raises Unreadable unless each picture can be read, and what stands for it stands where it is said to, before the end."""
        for picture in shown:
            if tuple(token_ids[picture.first : picture.past]) != self.look(picture.png).token_ids:
                raise Unreadable(f"tokens {picture.first} to {picture.past} are not those that stand for the picture shown there")
            if picture.past >= len(token_ids):
                raise Unreadable("a text that ends with a picture cannot be gone on from; a word must follow")

    def _look(self, png: bytes) -> "Look":
        found = self.processor(text=[self.token], images=[opened(png)], add_special_tokens=False, return_tensors="pt")
        return Look(
            tuple(found.pop("input_ids")[0].tolist()), {name: tensor for name, tensor in found.items() if name in PICTURE_INPUTS}
        )


def require_eyes(eyes: Eyes | None) -> Eyes:
    """Raises Unreadable where there are none."""
    if eyes is None:
        raise Unreadable("the policy reads no pictures")
    return eyes


def opened(png: bytes) -> Image.Image:
    """In RGB. Raises Unreadable."""
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Unreadable(f"a picture has {image.width} × {image.height} pixels; at most {MOST_PIXELS} are read")
            return image.convert("RGB")
    except Unreadable:
        raise
    except Exception as error:  # a decoder raises whatever it stumbles over
        raise Unreadable(f"a picture cannot be read: {error}") from None
