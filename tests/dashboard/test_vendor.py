"""The vendored browser files match their manifest."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_vendored_files_match_their_manifest():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "vendor.py"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_template_contains_inline_code_or_style():
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        assert (
            " style=" not in text
            and " onclick=" not in text
            and "<style" not in text
            and "hx-on" not in text
        ), path
        assert "<script>" not in text and "|safe" not in text, path
