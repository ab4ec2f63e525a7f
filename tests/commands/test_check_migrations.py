"""`scripts/check_migrations.py`: the migrations against the models, without a database."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.db.migrations.loader import MigrationLoader

from apps.tasksets.models import Taskset

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_migrations.py"
NO_SERVER = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_migrations", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_migrations_are_complete_without_a_database_server(tmp_path: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": NO_SERVER, "RFTWEB_VAR": str(tmp_path)}
    command = [sys.executable, "-W", "error::RuntimeWarning", str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "migrations: complete\n"), done.stderr


def test_changed_field_without_a_migration_is_reported(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    monkeypatch.setattr(Taskset._meta.get_field("title"), "max_length", 123)
    assert script.list_missing(loader) == [
        "tasksets: no migration for: Alter field title on taskset"
    ]


def test_two_last_migrations_of_an_app_are_reported(script: ModuleType) -> None:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    [leaf] = loader.graph.leaf_nodes("tasksets")
    loader.graph.add_node(("tasksets", "9999_other"), None)
    assert script.list_conflicts(loader) == [
        f"tasksets: several last migrations: {leaf[1]}, 9999_other"
    ]


def test_second_migration_of_an_app_is_reported(script: ModuleType) -> None:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    loader.disk_migrations["tasksets", "0002_later"] = loader.get_migration(
        "tasksets", "0001_schema"
    )
    assert script.list_later(loader) == ["tasksets.0002_later: a second migration of its app"]
