"""The demo's warm policies, built once per machine because each takes one to two minutes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from apps.policies.manifest import verify_folder
from tests.clusters import ROOT, home, locked

# Sources and libraries on which the weights and their sealed folder depend.
SOURCES = (
    "workers/policies/building.py",
    "workers/policies/demonstrations.py",
    "workers/policies/recipes.py",
    "workers/policies/sampling.py",
    "workers/policies/saving.py",
    "workers/policies/tokenizing.py",
    "workers/policies/warming.py",
    "workers/engines/random_numbers.py",
    "workers/fast_linear.py",
    "apps/policies/manifest.py",
    "apps/tasksets/generators/sort.py",
    "apps/tasksets/generators/tone.py",
    "apps/tasksets/tone_language.py",
)
LIBRARIES = ("torch", "transformers")


def warm_policy(name: str) -> Path:
    """Return the sealed folder of the demo's policy `sort` or `tone`, as the demo builds it."""
    root = home() / f"policies-{_key()}"
    root.mkdir(exist_ok=True)
    with locked(home() / f"{name}.lock"):
        built = [folder for folder in root.glob(f"{name}-*") if not folder.suffix]
        folder = built[0] if built else _build(name, root)
    os.utime(root)
    verify_folder(folder)
    return folder


def _build(name: str, root: Path) -> Path:
    command = [sys.executable, "-m", "workers.policies.build", name, "--out", str(root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, timeout=1800, stdout=subprocess.PIPE
    )
    return Path(json.loads(done.stdout.splitlines()[-1])["folder"])


def copy_warm_policies(names: tuple[str, ...], var: Path) -> None:
    """Copy the policies to where a demo in `var` looks for them."""
    for name in names:
        folder = warm_policy(name)
        shutil.copytree(folder, var / "weights" / "policies" / folder.name)


def _key() -> str:
    digest = hashlib.sha256("".join(map(version, LIBRARIES)).encode())
    for name in SOURCES:
        digest.update(name.encode() + (ROOT / name).read_bytes())
    return digest.hexdigest()[:16]
