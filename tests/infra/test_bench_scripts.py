"""Scripts of bench that need no stack start as their docstrings say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["learning.py", "people_offline.py"])
def test_script_prints_its_options(script):
    command = [sys.executable, f"bench/{script}", "--help"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "usage: " in ended.stdout
