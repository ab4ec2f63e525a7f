"""The precision in which engine and trainer compute, and training in each precision."""

from dataclasses import replace

import pytest
import torch
from accelerate.optimizer import AcceleratedOptimizer

from apps.policies.manifest import read_manifest
from tests.workers.trainer.batches import digest, rows
from workers import precision
from workers.engines.transformers_loop import TransformersEngine
from workers.policies.tiny import build_tiny
from workers.precision import UnsupportedPrecision, choose
from workers.trainer.host import TrainerHost
from workers.trainer.report import OVERFLOW
from workers.trainer.spec import TrainerSpec

CPU = torch.device("cpu")
GPU = torch.device("cuda")
SMALL = 1_000
HUGE = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("precision") / "tiny"
    build_tiny(made)
    return made


@pytest.fixture
def host(folder, tmp_path):
    """Return a function that starts a trainer in a precision; all are stopped at the end."""
    torch.set_num_threads(1)
    made = []

    def start(wanted: str, resume_from=None) -> TrainerHost:
        output = tmp_path / "checkpoints"
        spec = TrainerSpec(folder, output, 8, 12, warmup_steps=0, precision=wanted)
        made.append(TrainerHost(spec))
        made[-1].start(resume_from)
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.mark.parametrize("field", ["engine", "trainer"])
@pytest.mark.parametrize(
    ("parameters", "has_instructions", "name"),
    [(SMALL, True, "float32"), (HUGE, True, "bfloat16"), (HUGE, False, "float32")],
)
def test_auto_on_a_cpu_chooses_by_model_size_and_instructions(
    monkeypatch, field, parameters, has_instructions, name
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_instructions})
    assert choose(field, "auto", parameters, CPU).name == name


@pytest.mark.parametrize(("has_bfloat16", "name"), [(True, "bfloat16"), (False, "float16")])
def test_auto_on_a_gpu_chooses_bfloat16_where_supported(monkeypatch, has_bfloat16, name):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bfloat16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    assert choose("engine", "auto", SMALL, GPU).name == name


def test_a_gpu_without_bfloat16_refuses_it_by_field(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    with pytest.raises(
        UnsupportedPrecision, match=r"precision\.trainer: Tesla T4 does not support bfloat16"
    ):
        choose("trainer", "bfloat16", SMALL, GPU)


def test_unknown_precision_is_refused_by_field():
    with pytest.raises(
        UnsupportedPrecision, match=r"precision\.engine: must be one of .*, not .int4."
    ):
        choose("engine", "int4", SMALL, CPU)


def test_parameters_are_counted_in_the_files(folder):
    shapes = [torch.Size(spec.shape) for spec in read_manifest(folder).tensors.values()]
    assert precision.parameters_in(folder) == sum(shape.numel() for shape in shapes)


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_engine_uses_the_requested_precision(folder, wanted):
    engine = TransformersEngine(temperature=1.0, seed=0, precision=wanted)
    engine.start(folder, 0, read_manifest(folder).probe)
    try:
        assert engine._policy.precision == wanted
    finally:
        engine.stop()


def test_auto_trains_a_small_model_on_a_cpu_like_float32(host):
    updates = {}
    for wanted in ("auto", "float32"):
        trained = host(wanted)
        trained.update(rows(1))
        updates[wanted] = digest(trained)
    assert updates["auto"] == updates["float32"]


def test_float16_training_on_a_cpu_is_refused_by_field(host):
    with pytest.raises(UnsupportedPrecision, match=r"precision\.trainer: float16 requires a GPU"):
        host("float16")


@pytest.fixture
def scaled(host, monkeypatch):
    """Return a function that starts a trainer with a scaled loss, as in float16 on a GPU."""

    def start(resume_from=None) -> TrainerHost:
        trained = host("float32", resume_from)
        accelerator = trained.trainer.accelerator
        monkeypatch.setattr(accelerator.state, "_mixed_precision", "fp16")
        monkeypatch.setattr(accelerator, "native_amp", True)
        monkeypatch.setattr(accelerator, "scaler", torch.amp.GradScaler("cpu"))
        bare = trained.trainer.optimizer.optimizer
        trained.trainer.optimizer = AcceleratedOptimizer(bare, scaler=accelerator.scaler)
        return trained

    return start


@pytest.mark.parametrize("wanted", ["bfloat16", "float16"])
def test_weights_and_moments_stay_float32_in_16_bit_training(host, scaled, wanted):
    trained = scaled() if wanted == "float16" else host(wanted)
    before = digest(trained)
    reports = [trained.update(rows(step)) for step in (1, 2, 3)]
    assert all(report.skipped in ("", OVERFLOW) for report in reports)
    assert not reports[-1].skipped and digest(trained) != before
    tensors = [*trained.trainer.model.parameters()]
    tensors += [state["exp_avg"] for state in trained.trainer.optimizer.state.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}


def test_update_in_16_bits_is_close_to_float32(host, scaled):
    starts = {
        "float32": lambda: host("float32"),
        "bfloat16": lambda: host("bfloat16"),
        "float16": scaled,
    }
    gaps = {
        name: start().update(rows(1)).metrics["behaviour_gap"] for name, start in starts.items()
    }
    assert gaps["bfloat16"] != gaps["float32"] == pytest.approx(gaps["bfloat16"], abs=0.02)
    assert gaps["float16"] != gaps["float32"] == pytest.approx(gaps["float16"], abs=0.005)


def test_float16_overflow_halves_the_scale_and_pauses_nothing(scaled):
    trained = scaled()
    loud = [replace(row, advantage=1e7 * row.advantage) for row in rows(1)]
    before = digest(trained)
    reports = [trained.update(loud) for _ in range(4)]
    assert [report.skipped for report in reports] == [OVERFLOW] * 4
    assert not any(report.blocked for report in reports)
    assert digest(trained) == before
    assert trained.trainer.accelerator.scaler.get_scale() == 65_536 / 2**4
