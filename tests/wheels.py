"""The wheel of rftweb, built from a copy of the checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("apps", "rftweb", "workers", "templates", "static", "docs", "examples", "requirements")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def build_wheel(folder: Path, source: Path | None = None) -> Path:
    """Build and return the wheel of a source folder (default: this checkout), without network.

    A build leaves files next to its source, so it works on a copy in `folder`.
    """
    copy = folder / "source"
    if source is None:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        for name in FOLDERS:
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        for name in FILES:
            shutil.copy(ROOT / name, copy / name)
    else:
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--wheel-dir", folder, copy]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel
