"""Image processor of a policy: prompts with pictures as tokens, pictures as pixel tensors.

The processor that reads with PIL is taken wherever it is there, so that an engine on one machine
and a trainer on another see the same numbers. Names relied on in transformers 5.19:
`AutoProcessor.from_pretrained(backend="pil")`; of a processor `image_token`, `image_token_id`,
`tokenizer`, and its call with `text`, `images`, `add_special_tokens`.
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

from apps.policies.manifest import ShownPicture
from workers.vision.loading import load_vision_config, require_read, sees_in

REMEMBERED = 256  # pictures whose numbers stay in memory
MAX_PIXELS = 1 << 24  # of a picture; larger ones are refused by their header
PICTURE_INPUTS = (
    "pixel_values",
    "image_sizes",
    "pixel_attention_mask",
)  # the others are about the text


@dataclass(frozen=True)
class EncodedPicture:
    """One picture by itself: its tokens in a text, and the encoder's input, a batch of one."""

    token_ids: tuple[int, ...]
    pixels: dict[str, torch.Tensor]


class Unreadable(ValueError):
    """Raised for a prompt or picture that cannot be shown to the policy; says why."""


class ImageProcessor:
    """Image processor of a policy.

    Raises CannotSee for an unsupported kind of vision model, OSError if the processor is missing.
    """

    def __init__(self, folder: Path) -> None:
        require_read(load_vision_config(folder))
        # a page of notes on torchvision, which nothing here needs
        transformers_logging.set_verbosity_error()
        self.processor = AutoProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, backend="pil"
        )
        self.token = self.processor.image_token
        self.token_id = self.processor.image_token_id
        self.encode_picture = lru_cache(REMEMBERED)(self._encode_picture)

    @classmethod
    def of(cls, folder: Path) -> "ImageProcessor | None":
        """Return the policy's image processor, or None for a policy that sees no pictures."""
        return cls(folder) if sees_in(folder) else None

    def encode(
        self, text: str, pngs: Sequence[bytes], offset: int = 0, begins: bool = False
    ) -> tuple[tuple[int, ...], tuple[ShownPicture, ...]]:
        """Tokenize a generated text that holds the picture token once for each picture.

        The result is the tokens and the places of the pictures. The tokens are those of the
        processor itself: the text's, with each picture token expanded to its picture's tokens.
        `offset`: tokens before it, which the places count. `begins`: the tokenizer's own first
        token stands before it, unless the text has it already, as the processor does. Raises
        Unreadable.
        """
        tokenizer = self.processor.tokenizer
        is_begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        tokenized = tokenizer.encode(text, add_special_tokens=begins and not is_begun)
        return self.expand(tokenized, pngs, offset)

    def expand(
        self, tokenized: Sequence[int], pngs: Sequence[bytes], offset: int = 0
    ) -> tuple[tuple[int, ...], tuple[ShownPicture, ...]]:
        """Expand each picture token to those that stand for its picture. Raises Unreadable."""
        token_ids: list[int] = []
        pictures: list[ShownPicture] = []
        pending = list(pngs)
        if (marks := tokenized.count(self.token_id)) != len(pngs):
            raise Unreadable(
                f"the prompt has {marks} image tokens {self.token}, but {len(pngs)} images"
            )
        for token in tokenized:
            if token != self.token_id:
                token_ids.append(token)
                continue
            first = offset + len(token_ids)
            token_ids += self.encode_picture(pending[0]).token_ids
            pictures.append(ShownPicture(pending.pop(0), first, offset + len(token_ids)))
        return tuple(token_ids), tuple(pictures)

    def require(self, token_ids: Sequence[int], pictures: Sequence[ShownPicture]) -> None:
        """Raise Unreadable unless each picture can be read and its tokens stand at its place.

        A text may not end with a picture.
        """
        for picture in pictures:
            if (
                tuple(token_ids[picture.first : picture.past])
                != self.encode_picture(picture.png).token_ids
            ):
                raise Unreadable(
                    f"tokens {picture.first} to {picture.past} do not match the image there"
                )
            if picture.past >= len(token_ids):
                raise Unreadable(
                    "text that ends with an image cannot be continued; text must follow"
                )

    def _encode_picture(self, png: bytes) -> "EncodedPicture":
        encoded = self.processor(
            text=[self.token], images=[open_png(png)], add_special_tokens=False, return_tensors="pt"
        )
        return EncodedPicture(
            tuple(encoded.pop("input_ids")[0].tolist()),
            {name: tensor for name, tensor in encoded.items() if name in PICTURE_INPUTS},
        )


def require_image_processor(image_processor: ImageProcessor | None) -> ImageProcessor:
    """Return the image processor. Raises Unreadable where there is none."""
    if image_processor is None:
        raise Unreadable("the policy does not support images")
    return image_processor


def open_png(png: bytes) -> Image.Image:
    """Decode a PNG picture to RGB. Raises Unreadable."""
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Unreadable(
                    f"an image has {image.width} × {image.height} pixels; the limit is {MAX_PIXELS}"
                )
            return image.convert("RGB")
    except Unreadable:
        raise
    except Exception as error:  # a decoder raises whatever it stumbles over
        raise Unreadable(f"an image cannot be read: {error}") from None
