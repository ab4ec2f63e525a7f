"""The virtual environment that `scripts/setup --with verifiers` makes, and small programs of the
package's own in it.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-verifiers" / "bin" / "python"
SLOW_S = 180  # its package imports slowly


def said_by(program: str, *arguments: str) -> str:
    """What this program prints there; without the virtual environment the test is skipped."""
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
