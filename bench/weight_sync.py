"""What it takes to bring new weights from the trainer to a serving engine, by size.

    python bench/weight_sync.py [--parameters 3e6,150e6] [--repeats 5]

publish: finite check, write, hash, fsync, rename; load: verify from disk to the bit, update the live engine, recompute
what is cached, probe. Next to it, in the same run, the floor: writing and syncing the same bytes, and reading them.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from transformers import AutoModelForCausalLM  # noqa: E402

from apps.policies.manifest import verify  # noqa: E402
from workers import weights  # noqa: E402
from workers.engines.choose import build  # noqa: E402
from workers.policies.tiny import build_sized  # noqa: E402

GPU = torch.cuda.is_available()


def main() -> None:
    options = parse_options()
    figures = {}
    times = ("write_ms", "publish_ms", "read_ms", "load_ms", "total_ms")
    print(f"{'parameters':>12} {'MiB':>7} {' '.join(f'{name:>11}' for name in times)} {'over copy':>10}")
    for size in options.parameters:
        row = measure(size, options.repeats)
        columns = " ".join(f"{row[name]:>11.1f}" for name in times)
        print(f"{row['parameters']:>12,} {row['mib']:>7.1f} {columns} {row['total_over_copy']:>10.2f}")
        figures[f"{size / 1e6:g}M"] = row
    print(json.dumps(figures))


def measure(size: int, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        base = Path(scratch) / "base"
        manifest = build_sized(base, size, dtype=torch.bfloat16 if GPU else torch.float32)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).to(
            "cuda" if GPU else "cpu"
        )  # as a trainer holds it
        engine, _ = build("auto", temperature=1.0, seed=0)
        engine.start(base, 0, manifest.probe)
        rounds = [one_round(model, engine, base, Path(scratch), version) for version in range(1, repeats + 1)]
        engine.stop()
    medians = {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}
    total, copy = medians["publish_ms"] + medians["load_ms"], medians["write_ms"] + medians["read_ms"]
    figures = {**medians, "total_ms": total, "total_over_copy": total / copy}
    return {"parameters": model.num_parameters(), **{name: round(value, 3) for name, value in figures.items()}}


def one_round(model: torch.nn.Module, engine, base: Path, scratch: Path, version: int) -> dict[str, float]:
    """One publish and load, and the bare copy of the same bytes, back to back."""
    with torch.no_grad():
        next(model.parameters()).mul_(1.0 + 1e-3)  # new weights, so that nothing is kept from before
    final = scratch / f"v{version}"
    publish_ms = clocked(lambda: weights.publish(model, base, final, version, version - 1))
    load_ms = clocked(lambda: engine.load(final, version, verify(final).probe))
    data = (final / "model.safetensors").read_bytes()
    copy = scratch / "copy"
    write_ms = clocked(lambda: synced_write(copy, data))
    read_ms = clocked(copy.read_bytes)
    shutil.rmtree(final)
    return {"mib": len(data) / 2**20, "publish_ms": publish_ms, "load_ms": load_ms, "write_ms": write_ms, "read_ms": read_ms}


def synced_write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def clocked(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parameters", type=lambda text: [int(float(part)) for part in text.split(",")], default=[3_000_000, 150_000_000]
    )
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
