"""The GPU benchmarks: without a GPU they fail with a message, and all their parts exist."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.gpu import run
from bench.gpu.shapes import PARAMETERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_benchmark_without_a_gpu_fails_with_one_line_of_json():
    command = [sys.executable, str(ROOT / "bench" / "gpu" / "run.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "no CUDA GPU" in json.loads(done.stdout)["error"]
    assert "no CUDA GPU" in done.stderr


def test_every_benchmark_part_is_an_existing_script_and_every_preset_is_a_part():
    options = argparse.Namespace(
        on_cpu=False, parameters=5e8, concurrent=8, tokens=8, steps=1, port=1
    )
    parts = run.list_part_commands(options)
    scripts = [Path(command[0]) for command in parts.values() if command[0] != "-c"]
    assert all(script.exists() for script in scripts)
    assert set(PARAMETERS) == set(run.PRESETS) <= set(parts)


@pytest.mark.parametrize(
    ("code", "value", "words"),
    [
        ("print('more'); print('{\"metric\": 1}')", {"metric": 1}, ""),
        ("print('{\"metric\": 1}'); raise SystemExit(1)", {"metric": 1}, "exit code 1"),
        ("print('no metrics')", {}, "printed no JSON"),
    ],
)
def test_failed_benchmark_part_reports_the_failure_with_its_measurements(code, value, words):
    found = run.last_json(["-c", code], {})
    failed = found.pop("failed", "")
    assert found == value and (words in failed if words else not failed)
