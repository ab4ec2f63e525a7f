"""Build prompts with pictures for vLLM: one token for each picture, and the pixels.

vLLM expands each picture token to the tokens of the picture.

Names used from vLLM 0.32: `prompt_token_ids` and `multi_modal_data` of a prompt, with PIL images
under `image`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apps.policies.manifest import ShownPicture
from workers.vision.image_processor import ImageProcessor, open_png, require_image_processor

if TYPE_CHECKING:
    from vllm.inputs import TokensPrompt


def build_vllm_prompt(
    token_ids: Sequence[int],
    pictures: Sequence[ShownPicture],
    image_processor: ImageProcessor | None,
) -> "TokensPrompt":
    """Return the prompt of these tokens and pictures, for `add_request` and `generate`."""
    if not pictures:
        return {"prompt_token_ids": list(token_ids)}
    token_id = require_image_processor(image_processor).token_id
    return {
        "prompt_token_ids": folded(token_ids, pictures, token_id),
        "multi_modal_data": {"image": [open_png(picture.png) for picture in pictures]},
    }


def folded(token_ids: Sequence[int], pictures: Sequence[ShownPicture], token_id: int) -> list[int]:
    """Return the tokens with each picture's run of tokens replaced by one `token_id`."""
    text = []
    past = 0
    for picture in pictures:
        text += [*token_ids[past : picture.first], token_id]
        past = picture.past
    return [*text, *token_ids[past:]]
