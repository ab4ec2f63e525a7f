"""The measurements for a GPU: refused in words where there is none, and naming parts that there
are.
"""

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
def test_without_a_gpu_it_fails_and_says_so_in_one_line_of_json():
    command = [sys.executable, str(ROOT / "bench" / "gpu" / "run.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "no CUDA GPU" in json.loads(done.stdout)["error"]
    assert "no CUDA GPU" in done.stderr


def test_every_part_is_a_script_that_is_there_and_each_preset_is_among_them():
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
def test_a_part_that_failed_says_so_beside_what_it_measured(code, value, words):
    found = run.last_json(["-c", code], {})
    failed = found.pop("failed", "")
    assert found == value and (words in failed if words else not failed)
