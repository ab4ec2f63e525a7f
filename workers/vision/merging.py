"""Pictures in the text model: what the tower makes of them takes the place of their tokens' embeddings.

The model's own way to do this takes every picture token in a text for a picture's. What a policy says is hostile: it may
say that token itself. So the places are given, never looked for.

Names relied on in transformers 5.19: `get_input_embeddings`, `get_image_features(...).pooler_output` (one tensor a picture).
"""

from collections.abc import Sequence

import torch

from apps.policies.manifest import Shown
from workers.vision.eyes import Eyes, require_eyes


def text_of(
    model: torch.nn.Module, eyes: Eyes | None, ids: torch.Tensor, shown: Sequence[Sequence[Shown]], starts: Sequence[int] = ()
) -> dict[str, torch.Tensor]:
    """What a forward pass over `ids` (B, T) takes: the ids themselves, or their embeddings where a row shows a picture.

    `starts`: where each row's text begins; all at 0 unless told. Raises ValueError for pictures shown to a model without eyes.
    """
    if not any(shown):
        return {"input_ids": ids}
    return {"inputs_embeds": embedded(model, require_eyes(eyes), ids, shown, starts or [0] * len(ids))}


def embedded(
    model: torch.nn.Module, eyes: Eyes, ids: torch.Tensor, shown: Sequence[Sequence[Shown]], starts: Sequence[int]
) -> torch.Tensor:
    """Embeddings (B, T, hidden) of `ids` (B, T), with the pictures `shown` in each row; row b's text begins at `starts[b]`.

    A picture that several rows show is looked at once. Raises ValueError for a place that holds no picture of that size.
    """
    embeddings = model.get_input_embeddings()(ids)
    distinct = list(dict.fromkeys(picture.png for pictures in shown for picture in pictures))
    seen = dict(zip(distinct, features(model, eyes, distinct), strict=True))
    rows, columns, values = [], [], []
    for row, (pictures, start) in enumerate(zip(shown, starts, strict=True)):
        for picture in pictures:
            span = ids[row, start + picture.first : start + picture.past]
            places = (span == eyes.token_id).nonzero()[:, 0] + start + picture.first
            if len(places) != len(seen[picture.png]):
                raise ValueError(f"{len(places)} picture tokens stand for a picture of {len(seen[picture.png])}")
            rows.append(places.new_full((len(places),), row))
            columns.append(places)
            values.append(seen[picture.png])
    return embeddings.index_put((torch.cat(rows), torch.cat(columns)), torch.cat(values).to(embeddings.dtype))


def features(model: torch.nn.Module, eyes: Eyes, pngs: Sequence[bytes]) -> list[torch.Tensor]:
    """What the model sees in each picture, (its picture tokens, hidden), with gradient where parameters have one."""
    parameter = next(model.parameters())
    looks = [eyes.look(png).pixels for png in pngs]
    pixels = {
        name: torch.cat([look[name] for look in looks]).to(
            parameter.device, parameter.dtype if looks[0][name].is_floating_point() else None
        )
        for name in looks[0]
    }
    return list(model.get_image_features(**pixels).pooler_output)
