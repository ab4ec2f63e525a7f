"""Pictures in the embedded engine: its logprobs match those of the model with the processor's own
inputs.
"""

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import PaliGemmaConfig, Qwen2VLConfig

from apps.policies.manifest import (
    Probe,
    ShownPicture,
    read_manifest,
    scan_policy_folder,
    seal_folder,
)
from tests.workers.engines.talking import DEADLINE, Reply, Talk
from workers.engines.interface import ParityError, Request, Sampling
from workers.engines.live_policy import LivePolicy
from workers.engines.transformers_loop import TransformersEngine
from workers.policies.tiny_vision import QUESTION, build_seeing, render_question, square
from workers.vision.image_processor import ImageProcessor, Unreadable
from workers.vision.loading import load_vision_model

LONG = Sampling(max_tokens=40)
CLOSE = 1e-3


@pytest.fixture(scope="session")
def seeing(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    build_loud_seeing(folder, 0)
    return folder


@pytest.fixture(scope="session")
def seeing_new(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "seeing-new"
    build_loud_seeing(folder, 1)
    return folder


def build_loud_seeing(folder: Path, seed: int) -> None:
    """Build an untrained policy with weights so large that a picture affects every token."""
    build_seeing(folder, seed=seed, loudness=3.0)


@pytest.fixture(scope="session")
def image_processor(seeing) -> ImageProcessor:
    return ImageProcessor(seeing)


@pytest.fixture
def engine(seeing) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(temperature=1.0, seed=3)
    engine.start(seeing, 1, read_manifest(seeing).probe)
    yield engine
    engine.stop()


class Seen(Talk):
    """Requests with pictures, and their replies."""

    def __init__(
        self,
        engine,
        asked: list[tuple[tuple[int, ...], tuple[ShownPicture, ...]]],
        sampling: Sampling = LONG,
    ) -> None:
        super().__init__(engine, [], sampling)
        self.shown = {f"s{n}": pictures for n, (_, pictures) in enumerate(asked)}
        self.replies = {f"s{n}": Reply(ids) for n, (ids, _) in enumerate(asked)}
        engine.submit(
            [
                Request(key, reply.prompt_ids, sampling, self.shown[key])
                for key, reply in self.replies.items()
            ]
        )


@torch.no_grad()
def own_logprobs(
    folder: Path, image_processor: ImageProcessor, talk: Seen, version: int | None = None
) -> torch.Tensor:
    """Return the gaps between all replies and the model's own forward pass, which finds picture
    tokens itself.
    """
    model = load_vision_model(folder, dtype="float32").eval()
    gaps = []
    for key, reply in talk.replies.items():
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        pixels = [
            image_processor.encode_picture(picture.png).pixels["pixel_values"]
            for picture in talk.shown[key]
        ]
        seen = {"pixel_values": torch.cat(pixels)} if pixels else {}
        logprobs = (
            model(input_ids=ids, **seen)
            .logits[0, :-1]
            .log_softmax(-1)
            .gather(1, ids[0, 1:, None])[:, 0]
        )
        chosen = torch.tensor([version in (None, by) for by in reply.versions])
        gaps.append(
            (torch.tensor(reply.logprobs) - logprobs[len(reply.prompt_ids) - 1 :]).abs()[chosen]
        )
    return torch.cat(gaps)


def asked(
    image_processor: ImageProcessor, *colours: str
) -> tuple[tuple[int, ...], tuple[ShownPicture, ...]]:
    """Return a question about squares of these colours."""
    mark = image_processor.token
    text = render_question(image_processor.processor.tokenizer, QUESTION).replace(
        mark, mark * len(colours)
    )
    return image_processor.encode(
        text, [square(colour, 4 + place, 5, 15) for place, colour in enumerate(colours)]
    )


def without_picture_tokens(talk: Seen, image_processor: ImageProcessor) -> None:
    """Remove replies that contain a picture token: the model's own pass would read it as a picture,
    so they cannot be compared.
    """
    for key in [
        key for key, reply in talk.replies.items() if image_processor.token_id in reply.token_ids
    ]:
        del talk.replies[key]
    assert len(talk.replies) >= 4


def test_encoded_tokens_match_the_processors_own(image_processor):
    text = render_question(image_processor.processor.tokenizer, QUESTION).replace(
        image_processor.token, f"{image_processor.token} and {image_processor.token}"
    )
    pngs = [square("red", 1, 2, 12), square("blue", 8, 2, 12)]
    images = [Image.open(io.BytesIO(png)) for png in pngs]
    own = image_processor.processor(text=[text], images=images, add_special_tokens=False)[
        "input_ids"
    ][0]
    token_ids, shown = image_processor.encode(text, pngs)
    assert list(token_ids) == list(own)
    assert [set(token_ids[s.first : s.past]) for s in shown] == [{image_processor.token_id}] * 2
    assert [s.past - s.first for s in shown] == [16, 16]


def test_logprobs_of_replies_about_pictures_match_the_models_own(engine, seeing, image_processor):
    blind = ((*asked(image_processor, "red")[0][17:],), ())
    talk = Seen(
        engine,
        [
            asked(image_processor, "red"),
            asked(image_processor, "green"),
            blind,
            asked(image_processor, "red", "blue"),
            blind,
        ]
        * 6,
    )
    talk.finish()
    without_picture_tokens(talk, image_processor)
    assert own_logprobs(seeing, image_processor, talk).max() <= CLOSE


def test_different_picture_changes_the_logprobs(engine, image_processor):
    token_ids, (shown,) = asked(image_processor, "red")
    gaps = [
        abs(a - b)
        for a, b in zip(
            engine.probe_logprobs((*token_ids, 6, 7), (shown,)),
            engine.probe_logprobs(
                (*token_ids, 6, 7), (replace(shown, png=square("blue", 4, 5, 15)),)
            ),
            strict=True,
        )
    ]
    assert max(gaps) > 0.05


def test_requests_with_pictures_continue_under_new_weights(
    engine, seeing, seeing_new, image_processor
):
    # Each reply is long and never ends early, so the weights change in the middle. Two thirds of
    # such replies contain a picture token.
    talk = Seen(
        engine,
        [asked(image_processor, colour) for colour in ("red", "green", "blue", "yellow")] * 12,
        Sampling(max_tokens=90),
    )
    talk.until(talk.begun)
    engine.load(seeing_new, 2, read_manifest(seeing_new).probe)
    talk.finish()
    without_picture_tokens(talk, image_processor)
    versions = {version for reply in talk.replies.values() for version in reply.versions}
    assert versions == {1, 2}
    assert own_logprobs(seeing, image_processor, talk, 1).max() <= CLOSE
    assert own_logprobs(seeing_new, image_processor, talk, 2).max() <= CLOSE


def test_picture_token_written_by_the_policy_is_not_a_picture(engine, image_processor):
    token_ids, shown = asked(image_processor, "red")
    engine.submit(
        [
            Request(
                "c",
                (*token_ids, 6, image_processor.token_id, 7, image_processor.token_id),
                Sampling(max_tokens=5),
                shown,
            )
        ]
    )
    said = []
    while not said or said[-1].stop_reason is None:
        news = engine.drain(DEADLINE)
        assert news, "the engine returned nothing"
        said += news
    assert said[-1].stop_reason in ("length", "stop")


def test_different_vision_tower_is_refused_by_the_probe(engine, seeing, tmp_path):
    shutil.copytree(seeing, tmp_path / "other", ignore=shutil.ignore_patterns("manifest.json"))
    weights = tmp_path / "other" / "model.safetensors"
    tensors = load_file(weights)
    changed = {
        name: tensor.flip(0) if name.endswith("patch_embedding.weight") else tensor
        for name, tensor in tensors.items()
    }
    save_file(changed, weights, metadata={"format": "pt"})
    assert scan_policy_folder(tmp_path / "other").fingerprint != read_manifest(seeing).fingerprint
    seal_folder(tmp_path / "other", tmp_path / "sealed", 2, 1, read_manifest(seeing).probe)
    with pytest.raises(ParityError):
        engine.load(tmp_path / "sealed", 2, read_manifest(tmp_path / "sealed").probe)
    assert engine.fingerprint() == read_manifest(seeing).fingerprint


def test_probe_stores_its_pictures(seeing, image_processor):
    probe = read_manifest(seeing).probe
    assert probe.pictures[0].png.startswith(b"\x89PNG")
    assert (
        json.loads((seeing / "manifest.json").read_text())["probe"]["pictures"][0]["first"]
        == probe.pictures[0].first
    )
    with pytest.raises(ValueError, match="nowhere"):
        ShownPicture(b"", 4, 4)
    assert Probe((1, 2), (-1.0,)).pictures == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, first=s.first + 1), "do not match the image"),
        (lambda s: replace(s, past=s.past + 400), "do not match the image"),
        (lambda s: replace(s, png=b"no picture"), "cannot be read"),
    ],
)
def test_request_with_an_invalid_picture_is_refused(engine, image_processor, change, words):
    token_ids, (shown,) = asked(image_processor, "red")
    with pytest.raises(ValueError, match=words):
        engine.submit([Request("w", token_ids, LONG, (change(shown),))])
    assert engine.health(5.0).alive


def test_a_prompt_that_ends_with_a_picture_is_refused(engine, image_processor):
    token_ids, shown = asked(image_processor, "red")
    with pytest.raises(ValueError, match="text must follow"):
        engine.submit([Request("w", token_ids[: shown[0].past], LONG, shown)])


def test_text_only_policy_refuses_pictures(old, image_processor):
    engine = TransformersEngine(temperature=1.0, seed=0)
    engine.start(old, 1, read_manifest(old).probe)
    try:
        with pytest.raises(Unreadable, match="does not support images"):
            engine.submit(
                [Request("w", (5, 6, 7), LONG, (ShownPicture(square("red", 1, 1, 12), 0, 1),))]
            )
    finally:
        engine.stop()


@pytest.mark.parametrize("spelt", [0, 2])
def test_text_with_the_wrong_number_of_image_tokens_is_refused(image_processor, spelt):
    with pytest.raises(Unreadable, match=rf"{spelt} image tokens .* but 1 images"):
        image_processor.encode(
            f"what is {image_processor.token * spelt} this?", [square("red", 1, 1, 12)]
        )


def test_multi_dimensional_positions_are_refused_naming_vllm_as_the_engine(tmp_path):
    Qwen2VLConfig(architectures=["Qwen2VLForConditionalGeneration"]).save_pretrained(
        tmp_path / "config"
    )
    with pytest.raises(
        ValueError, match=r"qwen2_vl uses multi-dimensional positions \(M-RoPE\).*vllm"
    ):
        LivePolicy.read(_sealed_without_weights(tmp_path / "config"), 1, torch.device("cpu"))


def test_unsupported_vision_architecture_is_refused_by_name(tmp_path):
    PaliGemmaConfig(architectures=["PaliGemmaForConditionalGeneration"]).save_pretrained(
        tmp_path / "config"
    )
    with pytest.raises(
        ValueError, match=r"PaliGemmaForConditionalGeneration reads pictures in a way .*llava.*vllm"
    ):
        LivePolicy.read(_sealed_without_weights(tmp_path / "config"), 1, torch.device("cpu"))


def _sealed_without_weights(folder: Path) -> Path:
    """Seal a folder with one tensor: the refusal must come before weights are read."""
    save_file({"w": torch.zeros(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    seal_folder(folder, folder.with_name("sealed"), 0, None, Probe((1, 2), (-1.0,)))
    return folder.with_name("sealed")
