"""Texts with pictures as vLLM takes them: one picture token for each picture, which it spreads out again, and the pixels.

Names relied on in vLLM 0.32: a prompt's `prompt_token_ids` and `multi_modal_data` with `image`, PIL images.
"""

from collections.abc import Sequence
from typing import Any

from apps.policies.manifest import Shown
from workers.vision.eyes import Eyes, opened, require_eyes


def prompt_of(token_ids: Sequence[int], pictures: Sequence[Shown], eyes: Eyes | None) -> dict[str, Any]:
    """The prompt of these tokens, where pictures are spread out, for `add_request` and `generate`."""
    if not pictures:
        return {"prompt_token_ids": list(token_ids)}
    token_id = require_eyes(eyes).token_id
    return {
        "prompt_token_ids": folded(token_ids, pictures, token_id),
        "multi_modal_data": {"image": [opened(picture.png) for picture in pictures]},
    }


def folded(token_ids: Sequence[int], pictures: Sequence[Shown], token_id: int) -> list[int]:
    """The tokens with `token_id` once where each picture is spread out."""
    text, past = [], 0
    for picture in pictures:
        text += [*token_ids[past : picture.first], token_id]
        past = picture.past
    return [*text, *token_ids[past:]]
