"""How pictures reach vLLM: folded to one token each, with their pixels; refused with a reason where
vLLM cannot read them.
"""

import importlib.util

import pytest
import torch

from apps.policies.manifest import ShownPicture
from workers.engines.choose import build_engine
from workers.engines.interface import EngineDied
from workers.engines.vllm_pictures import build_vllm_prompt, folded
from workers.policies.tiny_vision import QUESTION, build_seeing, render_question, square
from workers.vision.image_processor import ImageProcessor

HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None


@pytest.fixture(scope="module")
def image_processor(tmp_path_factory) -> ImageProcessor:
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    build_seeing(folder)
    return ImageProcessor(folder)


def test_picture_is_folded_to_one_token_and_the_surrounding_tokens_stay(image_processor):
    text = render_question(image_processor.processor.tokenizer, QUESTION).replace(
        image_processor.token, image_processor.token * 2
    )
    token_ids, shown = image_processor.encode(
        text, [square("red", 1, 1, 12), square("blue", 3, 3, 12)]
    )
    said = (*token_ids, 7, image_processor.token_id, 8)  # the policy may write any token
    prompt = build_vllm_prompt(said, shown, image_processor)
    plain = image_processor.processor.tokenizer.encode(text, add_special_tokens=False)
    assert prompt["prompt_token_ids"] == [*plain, 7, image_processor.token_id, 8]
    assert [image.size for image in prompt["multi_modal_data"]["image"]] == [(32, 32), (32, 32)]


def test_prompt_without_pictures_is_unchanged(image_processor):
    assert build_vllm_prompt((4, image_processor.token_id, 5), (), None) == {
        "prompt_token_ids": [4, image_processor.token_id, 5]
    }
    assert folded((1, 9, 9, 2), (ShownPicture(b"png", 1, 3),), 9) == [1, 9, 2]


@pytest.mark.skipif(
    HAS_TORCHVISION or importlib.util.find_spec("vllm") is None,
    reason="vllm can show pictures here, or is not here",
)
def test_vllm_without_torchvision_is_refused_for_a_vision_policy():
    with pytest.raises(EngineDied, match=r"torchvision.*engine: transformers"):
        build_engine("vllm", temperature=1.0, seed=0, sees=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_auto_chooses_the_embedded_engine_for_a_vision_policy():
    assert build_engine("auto", temperature=1.0, seed=0, sees=True)[0].name == "transformers"
