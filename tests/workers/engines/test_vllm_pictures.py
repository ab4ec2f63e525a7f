"""How pictures reach vLLM: folded to one token each, as pixels, and refused by name where it cannot show them."""

import importlib.util

import pytest
import torch

from apps.policies.manifest import Shown
from workers.engines.choose import build
from workers.engines.interface import EngineDied
from workers.engines.vllm_pictures import folded, prompt_of
from workers.policies.seeing import QUESTION, build_seeing, render, square
from workers.vision.eyes import Eyes

HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None


@pytest.fixture(scope="module")
def eyes(tmp_path_factory) -> Eyes:
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    build_seeing(folder)
    return Eyes(folder)


def test_a_picture_is_folded_to_one_token_and_what_stands_around_it_stays(eyes):
    text = render(eyes.processor.tokenizer, QUESTION).replace(eyes.token, eyes.token * 2)
    token_ids, shown = eyes.spell(text, [square("red", 1, 1, 12), square("blue", 3, 3, 12)])
    said = (*token_ids, 7, eyes.token_id, 8)  # the policy may say anything
    prompt = prompt_of(said, shown, eyes)
    plain = eyes.processor.tokenizer.encode(text, add_special_tokens=False)
    assert prompt["prompt_token_ids"] == [*plain, 7, eyes.token_id, 8]
    assert [image.size for image in prompt["multi_modal_data"]["image"]] == [(32, 32), (32, 32)]


def test_a_text_without_pictures_goes_as_it_is(eyes):
    assert prompt_of((4, eyes.token_id, 5), (), None) == {"prompt_token_ids": [4, eyes.token_id, 5]}
    assert folded((1, 9, 9, 2), (Shown(b"png", 1, 3),), 9) == [1, 9, 2]


@pytest.mark.skipif(
    HAS_TORCHVISION or importlib.util.find_spec("vllm") is None, reason="vllm can show pictures here, or is not here"
)
def test_vllm_without_torchvision_is_refused_for_a_policy_that_sees():
    with pytest.raises(EngineDied, match=r"torchvision.*engine: transformers"):
        build("vllm", temperature=1.0, seed=0, sees=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_auto_shows_pictures_with_the_embedded_engine():
    assert build("auto", temperature=1.0, seed=0, sees=True)[0].name == "transformers"
