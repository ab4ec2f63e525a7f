"""Measure one feature of vLLM on a GPU.

    python bench/gpu/engine_parts.py PART [--on-cpu]

`bench/gpu/run.py` runs it for each part, in a separate process. The last line is JSON. The exit
code is 1 if logprobs differ from a plain forward pass by more than the limit of the parity probe.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")

import django  # noqa: E402

django.setup()

from peft import get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from apps.policies.manifest import read_manifest  # noqa: E402
from bench.gpu import untrained  # noqa: E402
from workers import adapters  # noqa: E402
from workers.engines.parity import UNROUNDED_LIMITS  # noqa: E402
from workers.engines.vllm_options import VllmOptions  # noqa: E402
from workers.trainer import lora  # noqa: E402
from workers.trainer.spec import Lora  # noqa: E402

PRESET = "gpu-0.5b"
Figures = dict[str, Any]
OPTIONS = VllmOptions(memory_share=0.5, max_text_tokens=1_024)


@dataclass(frozen=True)
class Stage:
    """Two policies of one shape, and the amount of work to measure.

    `gaps`: every gap that was found.
    """

    old: Path
    new: Path
    scratch: Path
    small: bool
    gaps: list[float]

    def started(self, folder: Path, **options: object) -> tuple[Any, float]:
        """Return an engine with these weights, and the seconds that its start took."""
        from workers.engines.vllm import VllmEngine

        began = time.perf_counter()
        engine = VllmEngine(1.0, seed=0, options=replace(OPTIONS, **options))
        engine.start(folder, 1, read_manifest(folder).probe)
        return engine, time.perf_counter() - began

    def measure_speed(self, engine: Any, folder: Path, name: str) -> float:
        """Return tokens a second, and record the gap of the logprobs."""
        count, tokens = (8, 16) if self.small else (64, 256)
        prompts = untrained.prompts(count, 300)
        began = time.perf_counter()
        replies = untrained.complete_replies(engine, prompts, tokens, name)
        seconds = time.perf_counter() - began
        self.gaps.append(untrained.mean_gap(folder, replies[:8]))
        return sum(len(reply) for _, reply, _ in replies) / seconds


def graphs(stage: Stage) -> Figures:
    """Measure recorded CUDA graphs against none."""
    figures: Figures = {}
    for name, is_on in (("graphs", True), ("eager", False)):
        engine, seconds = stage.started(stage.old, graphs=is_on)
        stage.measure_speed(engine, stage.old, "warm")
        rate = stage.measure_speed(engine, stage.old, name)
        engine.stop()
        figures[name] = {"start_s": seconds, "tokens_per_s": rate}
    return figures


def prefix_cache(stage: Stage) -> Figures:
    """Measure the same prompts again, and check that other weights do not use the old cache."""
    engine, _ = stage.started(stage.old)
    first = stage.measure_speed(engine, stage.old, "first")
    again = stage.measure_speed(engine, stage.old, "again")
    engine.load(stage.new, 2, read_manifest(stage.new).probe)
    stage.measure_speed(engine, stage.new, "new")
    engine.stop()
    return {"tokens_per_s": first, "cached_tokens_per_s": again}


def longest_text(stage: Stage) -> Figures:
    """Measure room for the run's own texts against room for the policy's context."""
    figures: Figures = {}
    for name, room in (("context", None), ("run", 512)):
        engine, seconds = stage.started(stage.old, max_text_tokens=room)
        figures[name] = {"start_s": seconds, "room": engine._llm.model_config.max_model_len}
        stage.measure_speed(engine, stage.old, name)
        engine.stop()
    return figures


def sleep(stage: Stage) -> Figures:
    """Measure both sleep levels: bytes freed, seconds to sleep, and to wake with either weights."""
    figures: Figures = {}
    for level in (1, 2):
        engine, _ = stage.started(stage.old, sleep_level=level)
        stage.measure_speed(engine, stage.old, f"awake{level}")
        awake = free_bytes()
        times = {"sleep_s": time_engine(engine.sleep), "freed_bytes": free_bytes() - awake}
        times["wake_s"] = time_engine(engine.wake)
        stage.measure_speed(engine, stage.old, f"woken{level}")
        engine.sleep()
        probe = read_manifest(stage.new).probe
        times["load_s"] = time_engine(partial(engine.load, stage.new, 2, probe))
        stage.measure_speed(engine, stage.new, f"new{level}")
        engine.stop()
        figures[f"level_{level}"] = times
    return figures


def served_adapters(stage: Stage) -> Figures:
    """Measure versions of a LoRA run, merged into the base and beside it."""
    versions = [published_adapter(stage, seed) for seed in (1, 2)]
    figures: Figures = {}
    for name, rank in (("merge", None), ("adapter", 32)):
        engine, _ = stage.started(versions[0], adapter_rank=rank)
        with adapters.merge_whole_weights(versions[0]) as merged:
            stage.measure_speed(engine, merged, "first")
        probe = read_manifest(versions[1]).probe
        load_s = time_engine(lambda: engine.load(versions[1], 2, probe))  # noqa: B023
        with adapters.merge_whole_weights(versions[1]) as merged:
            rate = stage.measure_speed(engine, merged, "second")
        engine.stop()
        figures[name] = {"load_s": load_s, "tokens_per_s": rate}
    return figures


def tensor_parallel(stage: Stage) -> Figures:
    return measure_two_gpus(stage, tensor_parallel=2)


def data_parallel(stage: Stage) -> Figures:
    return measure_two_gpus(stage, data_parallel=2)


def measure_two_gpus(stage: Stage, **options: int) -> Figures:
    """Measure one policy on two GPUs, before and after its weights change."""
    if not stage.small and torch.cuda.device_count() < 2:
        return {"skipped": "this machine has one GPU"}
    engine, seconds = stage.started(stage.old, **options)
    rate = stage.measure_speed(engine, stage.old, "old")
    load_s = time_engine(lambda: engine.load(stage.new, 2, read_manifest(stage.new).probe))
    stage.measure_speed(engine, stage.new, "new")
    engine.stop()
    return {"start_s": seconds, "tokens_per_s": rate, "load_s": load_s}


PARTS: dict[str, Callable[[Stage], Figures]] = {
    "graphs": graphs,
    "prefix_cache": prefix_cache,
    "longest_text": longest_text,
    "sleep": sleep,
    "served_adapters": served_adapters,
    "tensor_parallel": tensor_parallel,
    "data_parallel": data_parallel,
}


def published_adapter(stage: Stage, seed: int) -> Path:
    """Publish an adapter at every layer, large enough to change the replies."""
    folder = stage.scratch / f"adapter-{seed}"
    plan = Lora(rank=32, alpha=64, target_modules=("q_proj", "v_proj", "up_proj", "down_proj"))
    base = AutoModelForCausalLM.from_pretrained(stage.old, dtype=torch.float32)
    model = get_peft_model(base.to(untrained.device()), lora.build_lora_config(plan))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.02)
    lora.publish_adapters(model, stage.old, folder, seed, 0, ("bfloat16", "float32"))
    return folder


def free_bytes() -> int:
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0


def time_engine(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument(
        "--on-cpu",
        action="store_true",
        help=("use a small policy on the CPU, only to test the code path"),
    )
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="rftweb-bench-"))
    try:
        folders = [scratch / name for name in ("old", "new")]
        for seed, folder in enumerate(folders):
            untrained.build_untrained(folder, PRESET, options.on_cpu, seed)
        stage = Stage(*folders, scratch, options.on_cpu, [])
        figures = PARTS[options.part](stage)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    limit = UNROUNDED_LIMITS["float32" if options.on_cpu else "bfloat16"]
    worst = max(stage.gaps, default=0.0)
    print(json.dumps({**figures, "worst_mean_gap": worst, "limit": limit}))
    return int(not worst <= limit)


if __name__ == "__main__":
    sys.exit(main())
