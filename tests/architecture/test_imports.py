"""Imports point down the seven floors, never up, never in a circle; only workers import torch."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from scripts.style_report import file_cycles

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {
    "apps.plugins": 1,
    "apps.accounts": 1,
    "apps.leases": 1,
    "apps.statistics": 1,
    "apps.tasksets": 1,
    "apps.policies": 1,
    "apps.streaming": 2,
    "apps.runs": 2,
    "apps.rollouts": 3,
    "apps.buffer": 4,
    "apps.rewards": 4,
    "apps.pipelines": 5,
    "apps.environments": 5,
    "apps.feedback": 5,
    "apps.evaluation": 5,
    "apps.lineage": 5,
    "apps.alerts": 6,
    "workers": 6,
    "apps.dashboard": 6,
    "rftweb": 7,
}
# Settings, the Celery app and the logs are used through Django and Celery, not by import.
HEAVY = {"torch", "transformers", "vllm", "trl", "accelerate", "peft", "datasets", "tokenizers"}


def room_of(module: str) -> str | None:
    return next((room for room in FLOORS if module == room or module.startswith(room + ".")), None)


def modules() -> list[tuple[str, Path]]:
    files = [
        path
        for top in ("apps", "workers", "rftweb")
        for path in (ROOT / top).rglob("*.py")
        if "migrations" not in path.parts
    ]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in files]


@cache
def imported(path: Path) -> set[str]:
    """Yield every module of an import statement, at module level or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def arrows() -> set[tuple[str, str]]:
    return {
        (room_of(name), target)
        for name, path in modules()
        for module in imported(path)
        if (target := room_of(module)) and room_of(name) and target != room_of(name)
    }


def test_every_app_is_assigned_to_a_floor():
    apps = {
        f"apps.{path.name}" for path in (ROOT / "apps").iterdir() if (path / "__init__.py").exists()
    }
    assert apps <= set(FLOORS)


def test_imports_never_point_up():
    assert [(a, b) for a, b in sorted(arrows()) if FLOORS[b] > FLOORS[a]] == []


def test_packages_have_no_circular_imports():
    edges = arrows()
    reached = {room: {b for a, b in edges if a == room} for room in FLOORS}
    for _ in FLOORS:
        reached = {
            room: found | {far for near in found for far in reached[near]}
            for room, found in reached.items()
        }
    assert [room for room, found in reached.items() if room in found] == []


def test_files_have_no_circular_imports():
    """Imports for type checkers only also count."""
    assert file_cycles() == 0


@pytest.mark.parametrize("top", ["apps", "rftweb"])
def test_heavy_libraries_are_imported_only_by_workers(top):
    guilty = [
        (name, module)
        for name, path in modules()
        if name.startswith(top)
        for module in imported(path)
        if module.split(".")[0] in HEAVY
    ]
    assert guilty == []


def test_engines_do_not_import_django():
    """They may import two modules of ours without Django: the folder manifest, and seeds."""
    known = ("apps.policies.manifest", "apps.tasksets.selection.chance")
    guilty = [
        (path, module)
        for path in (ROOT / "workers" / "engines").rglob("*.py")
        for module in imported(path)
        if module.split(".")[0] in {"django", "apps"} and not f"{module}.".startswith(known)
    ]
    assert guilty == []


def test_the_asgi_application_loads_no_torch():
    loaded = (
        f"sorted({HEAVY!r} & set(sys.modules)), sorted(m for m in sys.modules if m.split('.')[0] =="
        " 'workers')"
    )
    code = f"import sys, rftweb.asgi; print({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "[] []", done.stderr


def test_modules_imported_before_a_worker_forks_load_no_torch():
    """CUDA cannot be used in a process whose parent has used it."""
    loaded = f"sorted({HEAVY!r} & set(sys.modules))"
    code = (
        "import sys; from rftweb.celery import app; app.loader.import_default_modules(); "
        f"import rftweb.supervisor.announce; print('workers.trainer.job' in sys.modules, {loaded})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True []", done.stderr


def test_commands_report_a_usage_error_before_they_load_torch():
    commands = "workers.policies.average, workers.policies.build, workers.exporting.gguf_file"
    code = f"import sys, {commands}; print(sorted({HEAVY!r} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_models_have_all_their_migrations(db):
    from django.core.management import call_command

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
