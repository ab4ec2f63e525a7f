"""mypy finds no errors, as in `make check`; here it runs in parallel with other tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # without a cache it takes 100 seconds of processor time
def test_mypy_reports_no_errors():
    found = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
