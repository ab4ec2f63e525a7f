"""Run all measurements that need a GPU, without downloads.

    python bench/gpu/run.py [--only sleep,gpu-7b-lora] [--wheels FOLDER] [--parameters 5e8] [--steps
    20]

Each part runs in a separate process: a description of the machine; a check that no process uses
CUDA before it forks and that CUDA_VISIBLE_DEVICES is respected; each feature of vLLM on one GPU or
several (engine_parts.py); one update of each preset, compared with the computed table of memory
(preset_parts.py); pictures; publishing and loading weights; the explorer's overhead; and the whole
stack compared with a single process. --wheels installs the wheels that wheels.py fetched into a
separate folder. Progress goes to standard error; the last line is JSON by part. The exit code is 1
if a part failed; its value is then the reason.

Without a GPU it fails with a message. --on-cpu runs the parts with small policies, to test the code
and not to measure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
GPU = BENCH / "gpu"
ENGINE_PARTS = (
    "graphs",
    "prefix_cache",
    "longest_text",
    "sleep",
    "served_adapters",
    "tensor_parallel",
    "data_parallel",
)
PRESETS = ("gpu-0.5b", "gpu-1.5b-full", "gpu-7b-lora")
SEES_GPU = "import torch; print(torch.cuda.is_available())"
FACTS = """
import importlib.metadata as m, importlib.util as u, json, platform, torch
gpu = torch.cuda.is_available()
names = ("torch", "transformers", "trl")
print(json.dumps({"device": torch.cuda.get_device_name() if gpu else "cpu",
                  "gpus": torch.cuda.device_count(), "cuda": torch.version.cuda,
                  "python": platform.python_version(),
                  **{name: m.version(name) for name in names}, "vllm": bool(u.find_spec("vllm"))}))
"""
# What a worker's parent imports, and then what its child does before it builds an engine.
BEFORE_FORK = """
import json, sys
from rftweb.celery import app
app.loader.import_default_modules()
parent = "torch" in sys.modules
import django; django.setup()
import torch
from workers import gpu_turns
from workers.explorer import loop
gpus = gpu_turns.visible_gpus()
begun = torch.cuda.is_initialized()
print(json.dumps({"torch_in_parent": parent, "cuda_begun": begun, "gpus": gpus}))
sys.exit(parent or begun)
"""
PINNED = """
import json, os, sys
from pathlib import Path
import django; django.setup()
from rftweb.supervisor.devices import Pool
from rftweb.supervisor.roles import Plan, worker_program
last = (Pool.here().gpus or ("0",))[-1]
os.environ.update(worker_program(Plan(Path("/nowhere")), "explorer", "explorer", last).environment)
import torch
from workers import gpu_turns
seen = range(torch.cuda.device_count())
uuids = [f"GPU-{torch.cuda.get_device_properties(n).uuid}" for n in seen]
named = gpu_turns.visible_gpus()
print(json.dumps({"chosen": last, "cuda_sees": uuids, "turns_are_taken_at": named}))
sys.exit(uuids != named)
"""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-site-") as site:
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "rftweb.settings"}
        paths = [str(BENCH.parent), os.environ.get("PYTHONPATH")]
        if options.wheels:
            os.chmod(
                site, 0o755
            )  # PostgreSQL refuses to run as root: another account has to reach its programs
            install(options.wheels, site)
            paths.insert(0, site)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if not options.on_cpu and not sees_gpu(environment):
            return report_refusal(
                "torch sees no CUDA GPU: run this on a machine with one, or add --on-cpu"
            )
        chosen = {
            name: command
            for name, command in list_part_commands(options).items()
            if is_chosen(options, name)
        }
        if not chosen:
            return report_refusal(
                f"--only names no part; there are {', '.join(list_part_commands(options))}"
            )
        figures = {name: last_json(command, environment) for name, command in chosen.items()}
    print(json.dumps(figures))
    return int(any("failed" in figure for figure in figures.values()))


def report_refusal(why: str) -> int:
    """Report why nothing was measured, to people and to programs; return the exit status."""
    print(f"error: {why}", file=sys.stderr)
    print(json.dumps({"error": why}))
    return 1


def sees_gpu(environment: dict[str, str]) -> bool:
    """Tell whether CUDA sees a GPU, asked in another process: this one never uses CUDA."""
    command = [sys.executable, "-c", SEES_GPU]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return process.stdout.strip() == "True"


def is_chosen(options: argparse.Namespace, name: str) -> bool:
    return not options.only or name in options.only.split(",")


def list_part_commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return every part's command line, by its name, in the order in which they run."""
    size = ["--parameters", str(options.parameters if not options.on_cpu else 1e6)]
    path = ["--on-cpu"] if options.on_cpu else []
    commands = {"machine": ["-c", FACTS], "before_fork": ["-c", BEFORE_FORK]}
    if not options.on_cpu:
        commands["pinned"] = ["-c", PINNED]
    for name in ENGINE_PARTS:
        commands[name] = [str(GPU / "engine_parts.py"), name, *path]
    for name in PRESETS:
        commands[name] = [str(GPU / "preset_parts.py"), name, *path]
    concurrent, tokens = (
        ("8", "16") if options.on_cpu else (str(options.concurrent), str(options.tokens))
    )
    overhead = [*size, "--concurrent", concurrent, "--tokens", tokens]
    steps = ["--steps", "2" if options.on_cpu else str(options.steps), "--port", str(options.port)]
    return {
        **commands,
        "pictures": [str(GPU / "pictures.py"), "--requests", "4" if options.on_cpu else "64"],
        "weight_sync": [str(BENCH / "weight_sync.py"), *size],
        "rollout_overhead": [str(BENCH / "rollout_overhead.py"), *overhead],
        "loop": [str(BENCH / "loop.py"), *size, *steps],
    }


def install(wheels: Path, site: str) -> None:
    """Install the wheels into a folder of their own; the machine's environment is unchanged."""
    wheel_files = sorted(map(str, wheels.glob("*.whl")))
    if not wheel_files:
        raise SystemExit(
            f"{wheels} holds no wheels: fetch them with bench/gpu/wheels.py on a machine with a"
            " network"
        )
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--no-cache-dir",
        "--target",
        site,
    ]
    subprocess.run([*command, *wheel_files], check=True)


def last_json(command: list[str], environment: dict[str, str]) -> dict:
    """Return the last line of a command's standard output as JSON.

    A failure is reported in it, so that the other parts are still measured.
    """
    process = subprocess.run(
        [sys.executable, *command],
        cwd=BENCH.parent,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = process.stdout.splitlines()
    print(*lines[:-1], sep="\n", file=sys.stderr, flush=True)
    try:
        report = json.loads(lines[-1])
    except (IndexError, ValueError):
        report = {}
    if process.returncode:
        return {**report, "failed": f"exit code {process.returncode}: standard error says why"}
    return report or {"failed": "it printed no JSON"}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="comma-separated names of parts (default: all)")
    parser.add_argument(
        "--on-cpu",
        action="store_true",
        help=("use small policies on the CPU, only to test the code path"),
    )
    parser.add_argument("--wheels", type=Path, help="folder filled by bench/gpu/wheels.py")
    parser.add_argument("--parameters", type=float, default=5e8)
    parser.add_argument("--steps", type=int, default=20, help="optimizer updates of the loop")
    parser.add_argument(
        "--concurrent", type=int, default=128, help="rollouts in flight of rollout_overhead"
    )
    parser.add_argument(
        "--tokens", type=int, default=256, help="longest answer of rollout_overhead"
    )
    parser.add_argument("--port", type=int, default=8321)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
