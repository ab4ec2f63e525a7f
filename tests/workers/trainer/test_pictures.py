"""Rows with pictures: the trainer computes the same logprobs as the engine and trains on them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from apps.policies.manifest import read_manifest, verify_folder
from tests.workers.engines.talking import Reply, Talk
from tests.workers.trainer.batches import digest
from tests.workers.trainer.ranks.measuring import course_of, require_alike
from workers.engines.interface import Request, Sampling
from workers.engines.live_policy import LivePolicy
from workers.engines.transformers_loop import TransformersEngine
from workers.policies.bringing_in import adopt_model
from workers.policies.tiny_vision import QUESTION, build_seeing, render_question, square
from workers.trainer import checkpoint, forward
from workers.trainer.collate import Row, collate
from workers.trainer.spec import Divergence, Objective, ReferenceModel, TrainerSpec
from workers.vision import loading
from workers.vision.image_processor import ImageProcessor

CLOSE = 1e-3
TEMPERATURE = 0.8


@pytest.fixture(scope="session")
def seeing(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    build_seeing(folder, loudness=3.0)
    return folder


@pytest.fixture(scope="session")
def sampled(seeing) -> list[Row]:
    """Sample answers with the real engine to questions with one picture, two and none; two rows
    show the same picture.
    """
    image_processor = ImageProcessor(seeing)
    engine = TransformersEngine(temperature=TEMPERATURE, seed=5)
    engine.start(seeing, 0, read_manifest(seeing).probe)
    try:
        text = render_question(image_processor.processor.tokenizer, QUESTION)
        one = image_processor.encode(text, [square("red", 3, 4, 14)])
        two = image_processor.encode(
            text.replace(
                image_processor.token, f"{image_processor.token} and {image_processor.token}"
            ),
            [square("blue", 1, 1, 12), square("red", 3, 4, 14)],
        )
        none = ((*one[0][: one[1][0].first], *one[0][one[1][0].past :]), ())
        asked = {f"r{n}": encoded for n, encoded in enumerate([one, two, none, one, two, none])}
        talk = Talk(engine, [], Sampling(max_tokens=9, temperature=TEMPERATURE))
        talk.replies = {key: Reply(ids) for key, (ids, _) in asked.items()}
        sampling = Sampling(max_tokens=9, temperature=TEMPERATURE)
        engine.submit([Request(key, ids, sampling, shown) for key, (ids, shown) in asked.items()])
        talk.finish()
    finally:
        engine.stop()
    return [
        Row(
            reply.prompt_ids,
            tuple(reply.token_ids),
            (1,) * len(reply.token_ids),
            tuple(reply.logprobs),
            1.0 if number % 2 else -1.0,
            pictures=asked[key][1],
        )
        for number, (key, reply) in enumerate(talk.replies.items())
    ]


@pytest.fixture
def spec(seeing, tmp_path):
    def make(**fields: object) -> TrainerSpec:
        defaults = {
            "output": tmp_path / "checkpoints",
            "planned_steps": 8,
            "rows_per_step": 6,
            "warmup_steps": 0,
            "learning_rate": 1e-3,
            "temperature": TEMPERATURE,
        }
        return TrainerSpec(policy=seeing, **{**defaults, **fields})

    return make


def trained(host, rows: list[Row]) -> dict[str, float]:
    return host.update(rows).metrics


@pytest.mark.parametrize("micro_batch_rows", [None, 2])
def test_trainer_recomputes_the_logprobs_that_the_engine_sampled(
    started, spec, sampled, micro_batch_rows
):
    metrics = trained(started(spec(micro_batch_rows=micro_batch_rows)), sampled)
    assert metrics["behaviour_gap"] <= CLOSE


def test_every_token_logprob_matches_the_engines(started, spec, sampled):
    trainer = started(spec()).trainer
    batch = collate(sampled, trainer.processing_class.pad_token_id)
    gallery = forward.Gallery(sampled, trainer.image_processor)
    with torch.no_grad():
        policy, _ = forward.score(trainer.model.eval(), batch, gallery)
    assert ((policy - batch["old_per_token_logps"]).abs() * forward.loss_mask(batch)).max() <= CLOSE


def test_different_pictures_give_a_large_behaviour_gap(started, spec, sampled):
    blue = square("yellow", 9, 9, 15)
    other = [
        replace(row, pictures=tuple(replace(shown, png=blue) for shown in row.pictures))
        for row in sampled
    ]
    assert trained(started(spec()), other)["behaviour_gap"] > 10 * CLOSE


def test_kl_is_zero_when_the_reference_equals_the_policy(started, spec, sampled):
    kl = Objective(kl=Divergence("k3", 0.1), reference=ReferenceModel("base"))
    assert trained(started(spec(objective=kl)), sampled)["kl"] == pytest.approx(0.0, abs=1e-6)


def test_another_policy_as_reference_also_gets_the_pictures(started, spec, sampled, tmp_path):
    build_seeing(tmp_path / "other", seed=7, loudness=3.0)
    kl = Objective(kl=Divergence("k3", 0.1), reference=ReferenceModel("policy", tmp_path / "other"))
    host = started(spec(objective=kl))
    batch = collate(sampled, host.trainer.processing_class.pad_token_id)
    found = host.trainer.reference.logprobs(
        host.trainer.model, batch, 4, gallery=forward.Gallery(sampled, host.trainer.image_processor)
    )
    live = LivePolicy.read(tmp_path / "other", 0, torch.device("cpu"))
    for row, ours in zip(sampled, found, strict=True):
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        logits = live.module(**live.text(ids, [row.pictures])).logits[0, :-1] / TEMPERATURE
        said = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[len(row.prompt_ids) - 1 :, 0]
        assert (said - ours[: len(said)]).abs().max() <= CLOSE


@pytest.mark.parametrize(("tower", "moves"), [("frozen", False), ("trained", True)])
def test_vision_tower_is_trained_only_when_configured(started, spec, sampled, tower, moves):
    host = started(spec(tower=tower))
    before = {
        name: parameter.detach().clone()
        for name, parameter in host.trainer.model.named_parameters()
    }
    trained(host, sampled)
    moved = {
        name
        for name, parameter in host.trainer.model.named_parameters()
        if not torch.equal(parameter, before[name])
    }
    assert any("language_model" in name for name in moved) and any(
        "projector" in name for name in moved
    )
    assert any("vision_tower" in name for name in moved) is moves


def test_published_vision_weights_have_the_bases_layout_and_can_be_served(
    started, spec, seeing, sampled, tmp_path
):
    host = started(spec(tower="trained"))
    trained(host, sampled)
    manifest = host.publish(tmp_path / "v1", 1, 0)
    assert (
        verify_folder(tmp_path / "v1", like=read_manifest(seeing)).fingerprint
        != read_manifest(seeing).fingerprint
    )
    assert manifest.probe.pictures == read_manifest(seeing).probe.pictures
    live = LivePolicy.read(tmp_path / "v1", 1, torch.device("cpu"))
    assert live.probe_logprobs(manifest.probe.token_ids, manifest.probe.pictures) == pytest.approx(
        manifest.probe.logprobs, abs=1e-5
    )


def test_bfloat16_vision_weights_are_published_in_bfloat16(
    started, spec, seeing, sampled, tmp_path
):
    half = loading.load_vision_model(seeing, dtype=torch.bfloat16)
    shutil.copytree(
        seeing,
        tmp_path / "source",
        ignore=shutil.ignore_patterns("manifest.json", "model.safetensors"),
    )
    half.save_pretrained(tmp_path / "source")
    adopt_model(str(tmp_path / "source"), "main", tmp_path / "half")
    host = started(replace(spec(), policy=tmp_path / "half"))
    trained(host, sampled)
    published = host.publish(tmp_path / "v1", 1, 0)
    assert {tensor.dtype for tensor in published.tensors.values()} == {"BF16"}
    assert published.probe.pictures


def test_resumed_vision_trainer_continues_from_the_same_weights(started, spec, sampled):
    first = started(spec(tower="trained"))
    first.update(sampled, save=True)
    after_one = digest(first)
    first.update(sampled)
    folder = checkpoint.sealed(first.spec.output)[0]
    again = started(spec(tower="trained"), resume_from=folder)
    assert digest(again) == after_one
    again.update(sampled)
    assert digest(again) == digest(first)


@pytest.mark.parametrize("tower", ["frozen", "trained"])
def test_process_without_picture_rows_trains_together_with_another(
    hosted, in_two, spec, sampled, tower, tmp_path
):
    shown = [row for row in sampled if row.pictures]
    bare = [row for row in sampled if not row.pictures]
    batches = [[*shown[:3], *bare, bare[0]]] * 2
    plan = spec(tower=tower, output=tmp_path / "one")
    wanted = course_of(hosted(plan), batches)
    shared = in_two(replace(plan, output=tmp_path / "two"))
    # The key bias adds the same to all scores of a query, so its gradient is only rounding.
    # Products of half as many rows may be rounded by another library (workers.fast_linear).
    require_alike(course_of(hosted(shared), batches), wanted, close=1e-5, but="k_proj.bias")
