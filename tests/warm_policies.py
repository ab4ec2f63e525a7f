"""The demo's warm policies, built once on a machine: each takes one to two minutes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.clusters import ROOT, home, locked

SOURCES = ("workers/policies/*.py", "apps/tasksets/generators/*.py", "apps/rewards/*.py")


def warm_policy(name: str) -> Path:
    """Return the sealed folder of the demo's policy `sort` or `tone`, as the demo builds it."""
    root = home() / f"policies-{_key()}"
    root.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "workers.policies.build", name, "--out", str(root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with locked(home() / f"{name}.lock"):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, timeout=1800, stdout=subprocess.PIPE
        )
    os.utime(root)
    return Path(json.loads(done.stdout.splitlines()[-1])["folder"])


def copy_warm_policies(names: tuple[str, ...], var: Path) -> None:
    """Put the policies where a demo in `var` looks for them."""
    for name in names:
        folder = warm_policy(name)
        shutil.copytree(folder, var / "weights" / "policies" / folder.name)


def _key() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
