"""Time to bring new weights from the trainer to a serving engine, by size.

    python bench/weight_sync.py [--parameters 3e6,150e6 | --policy FOLDER] [--repeats 5]

Publishing is the finite check, write, hash, fsync and rename. Loading is verifying every byte from
disk, updating the live engine, recomputing caches, and probing; the pause is the part of it in
which the engine generates nothing. The baseline in the same run is writing and syncing the same
bytes, and reading them.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from transformers import AutoModelForCausalLM  # noqa: E402

from apps.policies.manifest import read_manifest, verify_folder  # noqa: E402
from workers import weights  # noqa: E402
from workers.engines.choose import build_engine  # noqa: E402
from workers.policies.tiny import build_sized  # noqa: E402

GPU = torch.cuda.is_available()


def main() -> None:
    options = parse_options()
    figures = {}
    times = ("write_ms", "publish_ms", "read_ms", "load_ms", "pause_ms", "total_ms")
    print(
        f"{'parameters':>12} {'MiB':>7} {' '.join(f'{name:>11}' for name in times)}"
        f" {'over copy':>10}"
    )
    for name, row in measure_sizes(options):
        columns = " ".join(f"{row[name]:>11.1f}" for name in times)
        print(
            f"{row['parameters']:>12,} {row['mib']:>7.1f} {columns} {row['total_over_copy']:>10.2f}"
        )
        figures[name] = row
    print(json.dumps(figures))


def measure_sizes(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure the given policy, or an untrained one of each size; name and figures."""
    if options.policy:
        yield options.policy.name, measure_sync(options.policy, options.repeats)
        return
    for size in options.parameters:
        with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
            base = Path(scratch) / "base"
            build_sized(base, size, dtype=torch.bfloat16 if GPU else torch.float32)
            yield f"{size / 1e6:g}M", measure_sync(base, options.repeats)


def measure_sync(base: Path, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as scratch:
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).to(
            "cuda" if GPU else "cpu"
        )  # in the trainer's precision
        engine, _ = build_engine("auto", temperature=1.0, seed=0)
        engine.start(base, 0, read_manifest(base).probe)
        rounds = [
            one_round(model, engine, base, Path(scratch), version)
            for version in range(1, repeats + 1)
        ]
        engine.stop()
    medians = {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}
    total = medians["publish_ms"] + medians["load_ms"]
    copy = medians["write_ms"] + medians["read_ms"]
    figures = {**medians, "total_ms": total, "total_over_copy": total / copy}
    return {
        "parameters": model.num_parameters(),
        **{name: round(value, 3) for name, value in figures.items()},
    }


def one_round(
    model: torch.nn.Module, engine, base: Path, scratch: Path, version: int
) -> dict[str, float]:
    """Time one publish and load, and the bare copy of the same bytes, one after the other."""
    with torch.no_grad():
        next(model.parameters()).mul_(1.0 + 1e-3)  # new weights, so that no cache helps
    final = scratch / f"v{version}"
    publish_ms = time_sync(
        lambda: weights.publish_weights(model, base, final, version, version - 1)
    )
    fingerprint = read_manifest(final).fingerprint  # a row of the database has it
    began = time.perf_counter()
    probe = verify_folder(final, fingerprint=fingerprint).probe
    report = engine.load(final, version, probe)
    load_ms = (time.perf_counter() - began) * 1e3
    data = (final / "model.safetensors").read_bytes()
    copy = scratch / "copy"
    write_ms = time_sync(lambda: synced_write(copy, data))
    read_ms = time_sync(copy.read_bytes)
    shutil.rmtree(final)
    return {
        "mib": len(data) / 2**20,
        "publish_ms": publish_ms,
        "load_ms": load_ms,
        "pause_ms": report.milliseconds,
        "write_ms": write_ms,
        "read_ms": read_ms,
    }


def synced_write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def time_sync(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parameters",
        type=lambda text: [int(float(part)) for part in text.split(",")],
        default=[3_000_000, 150_000_000],
    )
    parser.add_argument("--policy", type=Path, help="sealed folder (default: untrained weights)")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
