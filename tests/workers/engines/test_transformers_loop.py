"""Guarantees of the embedded engine only: how it dies, what it refuses, that seeds repeat."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from apps.policies.manifest import read_manifest
from tests.workers.engines.talking import Talk, ask, build_loud
from workers.engines import transformers_loop
from workers.engines.interface import EngineDied, Request, Sampling
from workers.engines.transformers_loop import TransformersEngine

LONG = Sampling(max_tokens=100)


@pytest.fixture
def engine(old: Path) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(temperature=1.0, seed=3)
    engine.start(old, 1, read_manifest(old).probe)
    yield engine
    engine.stop()


def _fail(*args: object, **kwargs: object) -> None:
    raise RuntimeError("the device is gone")


def test_error_during_generation_stops_the_engine_with_the_reason(engine, monkeypatch):
    monkeypatch.setattr(engine._policy.module, "forward", _fail)
    talk = Talk(engine, [(5, 6)], LONG)
    with pytest.raises(EngineDied, match="the device is gone"):
        talk.finish()
    assert engine.in_flight() == 0
    assert not engine.health(1.0).alive


def test_every_call_on_a_dead_engine_reports_the_reason(engine, old, monkeypatch):
    monkeypatch.setattr(engine._policy.module, "forward", _fail)
    with pytest.raises(EngineDied):
        Talk(engine, [(5, 6)], LONG).finish()
    for call in (
        lambda: engine.submit([Request("r", (5,), LONG)]),
        lambda: engine.drain(0.0),
        lambda: engine.load(old, 2, read_manifest(old).probe),
        lambda: engine.probe_logprobs((5, 6)),
        lambda: engine.fingerprint(),
    ):
        with pytest.raises(EngineDied, match="the device is gone"):
            call()
    engine.abort(["r0"])


def test_non_finite_logits_stop_the_engine(engine):
    with torch.inference_mode():
        engine._policy.module.model.norm.weight.fill_(float("nan"))
    with pytest.raises(EngineDied, match="not finite"):
        Talk(engine, [(5, 6)], LONG).finish()


def test_equal_engine_seeds_give_equal_replies(old):
    said = []
    for _ in range(2):
        engine = TransformersEngine(temperature=1.0, seed=5)
        engine.start(old, 1, read_manifest(old).probe)
        said.append(
            [reply.token_ids for reply in ask(engine, [(5, 6, 7)] * 20, Sampling(max_tokens=10))]
        )
        engine.stop()
    assert said[0] == said[1]


def test_different_model_is_refused_and_the_old_one_stays_in_use(engine, tmp_path: Path):
    build_loud(tmp_path / "other", seed=0, hidden=64)
    with pytest.raises(ValueError, match="a different model"):
        engine.load(tmp_path / "other", 2, read_manifest(tmp_path / "other").probe)
    (reply,) = ask(engine, [(5, 6)], Sampling(max_tokens=5))
    assert reply.versions == [1] * 5


@pytest.mark.parametrize("prompt_ids", [(), (20,), (-1,)])
def test_invalid_prompt_ids_are_refused(engine, prompt_ids):
    with pytest.raises(ValueError):
        engine.submit([Request("r", prompt_ids, LONG)])
    assert engine.in_flight() == 0


@pytest.mark.parametrize(
    "sampling", [Sampling(max_tokens=0), Sampling(max_tokens=5, temperature=0.5)]
)
def test_unsupported_sampling_is_refused(engine, sampling):
    with pytest.raises(ValueError):
        engine.submit([Request("r", (5,), sampling)])


def test_temperature_must_be_above_zero():
    with pytest.raises(ValueError):
        TransformersEngine(temperature=0.0, seed=0)


def test_engine_can_start_after_a_refused_start(old, tmp_path: Path):
    engine = TransformersEngine(temperature=1.0, seed=0)
    with pytest.raises(Exception, match="manifest"):
        engine.start(tmp_path, 1, read_manifest(old).probe)
    engine.start(old, 2, read_manifest(old).probe)
    assert engine.health(10.0).version == 2
    engine.stop()


def test_reply_that_a_caller_waits_for_is_delivered_before_the_others_end(engine, monkeypatch):
    monkeypatch.setattr(transformers_loop, "NEWS_SECONDS", 60.0)
    short = Request("short", (5, 6), Sampling(max_tokens=1, seed=1), is_awaited=True)
    engine.submit([short, *(Request(f"long{n}", (5, 6), Sampling(100, seed=n)) for n in range(8))])
    deltas = engine.drain(30.0)
    assert [delta.stop_reason for delta in deltas if delta.request_id == "short"] == ["length"]
    assert any(delta.stop_reason is None for delta in deltas)
