"""Run one update of a preset on one GPU, and compare its memory with the computed table.

    python bench/gpu/preset_parts.py gpu-1.5b-full [--on-cpu]

Engine and trainer share the GPU. An untrained policy of the preset's size is sampled, trained for
one update with the preset's rows and tokens (while the engine sleeps, or keeps its share of the
memory), published, loaded and sampled again. The last line is JSON: measured and computed bytes,
and seconds. The exit code is 1 if memory ran out or the engine's logprobs differ.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")

import django  # noqa: E402

django.setup()

from apps.policies.manifest import read_manifest  # noqa: E402
from apps.policies.registering import parameter_count  # noqa: E402
from apps.policies.shape import shape_in  # noqa: E402
from apps.runs.config import RunConfig  # noqa: E402
from apps.runs.memory import Memory, Sizes, estimate_memory  # noqa: E402
from apps.runs.parsing import from_yaml, parse_config  # noqa: E402
from bench.gpu import untrained  # noqa: E402
from bench.gpu.shapes import PARAMETERS  # noqa: E402
from workers import adapters, gpu_turns  # noqa: E402
from workers.engines.parity import UNROUNDED_LIMITS  # noqa: E402
from workers.trainer.collate import Row  # noqa: E402
from workers.trainer.host import TrainerHost  # noqa: E402
from workers.trainer.plan import spec_from  # noqa: E402
from workers.vllm_plan import build_vllm_options  # noqa: E402

Figures = dict[str, Any]
FEW = {
    "group_size": 4,
    "groups_per_step": 2,
    "sampling": {"max_prompt_tokens": 64, "max_tokens": 16},
    "optimizer": {"learning_rate": 1e-5, "micro_batch_rows": 4},
}


def preset_plan(preset: str, small: bool) -> RunConfig:
    plan = from_yaml((ROOT / "examples" / f"{preset}.yaml").read_text(encoding="utf-8"))
    return parse_config({**plan.model_dump(mode="json"), **FEW}) if small else plan


def measure_preset(preset: str, small: bool, scratch: Path) -> Figures:
    plan = preset_plan(preset, small)
    base = scratch / "base"
    manifest = untrained.build_untrained(base, preset, small)
    sizes = Sizes(parameter_count(manifest), shape_in(base), 2_048 if small else 32_768)
    engine, figures = start_preset_trainer(plan, base, sizes)
    try:
        figures["gap_before"] = sampled(engine, plan, base, "before")
        if plan.vllm.sleep_level:
            awake = used_bytes()
            figures["sleep_s"] = time_preset(engine.sleep)
            figures["engine_freed_bytes"] = awake - used_bytes()
        figures |= updated(plan, base, scratch)
        version = scratch / "v000001"
        figures["load_s"] = time_preset(
            lambda: engine.load(version, 1, read_manifest(version).probe)
        )
        with adapters.merge_whole_weights(version) as merged:
            figures["gap_after"] = sampled(engine, plan, merged, "after")
    finally:
        engine.stop()
    computed = estimate_memory(plan, sizes, on_gpu=True)
    limit = UNROUNDED_LIMITS["float32" if small else "bfloat16"]
    is_right = max(figures["gap_before"], figures["gap_after"]) <= limit
    return {**figures, "computed": memory_table(computed), "limit": limit, "ok": is_right}


def start_preset_trainer(plan: RunConfig, base: Path, sizes: Sizes) -> tuple[Any, Figures]:
    from workers.engines.vllm import VllmEngine

    before = used_bytes()
    began = time.perf_counter()
    engine = VllmEngine(1.0, 0, build_vllm_options(plan, plan.room_in(sizes.context)))
    engine.start(base, 0, read_manifest(base).probe)
    seconds = time.perf_counter() - began
    return engine, {"engine_start_s": seconds, "engine_bytes": used_bytes() - before}


def sampled(engine: Any, plan: RunConfig, folder: Path, name: str) -> float:
    """Return the mean gap of some answers to prompts of the longest length."""
    prompts = untrained.prompts(8, plan.sampling.max_prompt_tokens)
    return untrained.mean_gap(folder, untrained.complete_replies(engine, prompts, 16, name))


def updated(plan: RunConfig, base: Path, scratch: Path) -> Figures:
    """Measure one update of the preset's rows at their longest, and publish to `scratch`."""
    host = TrainerHost(spec_from(plan, base, scratch / "checkpoints", planned_steps=1))
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    host.start()
    try:
        seconds = time_preset(lambda: host.update(build_preset_rows(plan)))
        gpu_turns.free_cached_memory()
        publish_s = time_preset(lambda: host.publish(scratch / "v000001", 1, 0))
        gpu_turns.free_cached_memory()
        peak = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
        trainer_bytes = torch.cuda.memory_allocated() if torch.cuda.is_available() else host.bytes
    finally:
        host.stop()
    return {
        "update_s": seconds,
        "publish_s": publish_s,
        "trainer_peak_bytes": peak,
        "trainer_held_bytes": trainer_bytes,
    }


def build_preset_rows(plan: RunConfig) -> list[Row]:
    draw = random.Random(0)
    prompt = plan.sampling.max_prompt_tokens
    reply = plan.sampling.max_tokens

    def row() -> Row:
        return Row(
            prompt_ids=tuple(draw.randrange(2, 1_000) for _ in range(prompt)),
            completion_ids=tuple(draw.randrange(2, 1_000) for _ in range(reply)),
            action_mask=(1,) * reply,
            behaviour_logprobs=(-7.0,) * reply,
            advantage=draw.choice((-1.0, 1.0)),
        )

    return [row() for _ in range(plan.rows_per_step)]


def memory_table(memory: Memory) -> Figures:
    parts = {f"{part.holder} {part.name}": part.bytes for part in memory.parts}
    return {**parts, "sampling": memory.sampling, "updating": memory.updating}


def used_bytes() -> int:
    """Return the memory in use on the whole card, by all processes."""
    if not torch.cuda.is_available():
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def time_preset(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", choices=PARAMETERS)
    parser.add_argument(
        "--on-cpu",
        action="store_true",
        help=("use a small policy on the CPU, only to test the code path"),
    )
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="rftweb-bench-"))
    try:
        figures = measure_preset(options.preset, options.on_cpu, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps(figures))
    return int(not figures["ok"])


if __name__ == "__main__":
    sys.exit(main())
