"""Run the programs of tests/environments/agents/programs with the frameworks' own packages."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APART = ROOT / ".venv-agent-frameworks"
FOLDER = ROOT / "tests" / "environments" / "agents" / "programs"
COMMON = ("chat", "stream", "options", "tools", "structured", "refused")
PROGRAMS = {
    "use_langchain.py": COMMON,
    "use_llamaindex.py": COMMON,
    "use_agents_sdk.py": ("chat", "stream", "options", "tools", "refused", "responses"),
    "use_litellm.py": COMMON,
    "use_vercel.mjs": COMMON,
}
PATIENCE_S = 300  # their packages import slowly on a busy machine


def results_of(
    name: str, ways: tuple[str, ...], base: str, key: str, folder: Path
) -> dict[str, dict]:
    """Return what the program printed for each of the ways; skip the test without its packages."""
    command = javascript(name, folder) if name.endswith(".mjs") else python(name)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OPENAI_BASE_URL": base,
        "OPENAI_API_KEY": key,
        "OPENAI_MODEL": "tiny",
        "WAYS": " ".join(ways),
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{name}: {done.stderr}{done.stdout}"
    return json.loads(done.stdout.splitlines()[-1])


def python(name: str) -> list[str]:
    if not (APART / "bin" / "python").exists():
        pytest.skip("the frameworks are not installed: scripts/setup --with agent-frameworks")
    return [str(APART / "bin" / "python"), str(FOLDER / name)]


def javascript(name: str, folder: Path) -> list[str]:
    """Put the program beside the packages, because JavaScript modules are found relative to the
    file.
    """
    modules = APART / "node_modules"
    if not (modules / "ai").exists():
        pytest.skip("the Vercel AI SDK is not installed: scripts/setup --with agent-frameworks")
    (folder / "node_modules").symlink_to(modules)
    program = folder / name
    program.write_text((FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8")
    own = APART / "bin" / "node"
    return [str(own) if own.exists() else "node", str(program)]
