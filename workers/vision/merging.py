"""Picture features in the text model: they replace the embeddings of the picture tokens.

The model's own way to do this takes every picture token in a text for a picture's. What a policy
says is hostile: it may say that token itself. So the places are given, never looked for.

Names relied on in transformers 5.19: `get_input_embeddings`,
`get_image_features(...).pooler_output` (one tensor a picture).
"""

from collections.abc import Sequence

import torch

from apps.policies.manifest import ShownPicture
from workers.vision.image_processor import ImageProcessor, require_image_processor


def build_text_inputs(
    model: torch.nn.Module,
    image_processor: ImageProcessor | None,
    ids: torch.Tensor,
    pictures: Sequence[Sequence[ShownPicture]],
    starts: Sequence[int] = (),
) -> dict[str, torch.Tensor]:
    """Return the model's inputs for `ids` (B, T): the ids, or embeddings if a row shows a picture.

    `starts`: the position at which each row's text begins, 0 by default. Raises ValueError for
    pictures shown to a model without a vision encoder.
    """
    if not any(pictures):
        return {"input_ids": ids}
    return {
        "inputs_embeds": embedded(
            model, require_image_processor(image_processor), ids, pictures, starts or [0] * len(ids)
        )
    }


def embedded(
    model: torch.nn.Module,
    image_processor: ImageProcessor,
    ids: torch.Tensor,
    pictures_by_row: Sequence[Sequence[ShownPicture]],
    starts: Sequence[int],
) -> torch.Tensor:
    """Return embeddings (B, T, hidden) of `ids` (B, T), with the pictures of each row.

    Row b's text begins at `starts[b]`.

    A picture that several rows show is looked at once. Raises ValueError for a place that holds no
    picture of that size.
    """
    input_embeddings = model.get_input_embeddings
    assert callable(input_embeddings)  # a method, which torch's stub takes for a tensor
    embeddings = input_embeddings()(ids)
    distinct = list(
        dict.fromkeys(picture.png for pictures in pictures_by_row for picture in pictures)
    )
    feature_of = dict(zip(distinct, features(model, image_processor, distinct), strict=True))
    rows = []
    columns = []
    values = []
    for row, (pictures, start) in enumerate(zip(pictures_by_row, starts, strict=True)):
        for picture in pictures:
            span = ids[row, start + picture.first : start + picture.past]
            places = (span == image_processor.token_id).nonzero()[:, 0] + start + picture.first
            if len(places) != len(feature_of[picture.png]):
                raise ValueError(
                    f"the prompt has {len(places)} image tokens, but the image needs "
                    f"{len(feature_of[picture.png])}"
                )
            rows.append(places.new_full((len(places),), row))
            columns.append(places)
            values.append(feature_of[picture.png])
    return embeddings.index_put(
        (torch.cat(rows), torch.cat(columns)), torch.cat(values).to(embeddings.dtype)
    )


def features(
    model: torch.nn.Module, image_processor: ImageProcessor, pngs: Sequence[bytes]
) -> list[torch.Tensor]:
    """Encode each picture to features (its picture tokens, hidden).

    The features have a gradient where the model's parameters have one.
    """
    parameter = next(model.parameters())
    encoded = [image_processor.encode_picture(png).pixels for png in pngs]
    pixels = {}
    for name, first in encoded[0].items():
        dtype = parameter.dtype if first.is_floating_point() else None
        joined = torch.cat([inputs[name] for inputs in encoded])
        pixels[name] = joined.to(parameter.device, dtype)
    image_features = model.get_image_features
    assert callable(image_features)  # a method, as above
    return list(image_features(**pixels).pooler_output)
