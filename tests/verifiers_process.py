"""The virtual environment that `scripts/setup --with verifiers` creates, and small programs that
run in it.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-verifiers" / "bin" / "python"
SLOW_S = 180  # its package imports slowly


def said_by(program: str, *arguments: str) -> str:
    """Run a program there and return its output; skip the test without the virtual environment."""
    if not PYTHON.exists():
        pytest.skip("the verifiers package is not installed: scripts/setup --with verifiers")
    done = subprocess.run(
        [PYTHON, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=SLOW_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
