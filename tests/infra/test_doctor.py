"""The doctor finds problems, says how to fix them, and reports failure by its exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now

from apps.rewards.sandbox import bubblewrap, languages
from apps.runs.models import Worker, after
from apps.tasksets.pages import rendering
from rftweb import embedded
from rftweb.doctor import CHECKS, Level
from rftweb.doctor.installation import (
    check_engine,
    check_keys,
    check_migrations,
    check_secrets,
    check_versions,
)
from rftweb.doctor.machine import check_disk, check_pages, check_sandbox
from rftweb.doctor.services import check_broker, check_control, check_database, check_supervisor

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installation(var, settings):
    """Return the settings of an installation under `var` whose services are stopped."""
    settings.VAR = var
    settings.DATABASE_URL, settings.REDIS_URL = embedded.urls(var)
    return settings


def level_of(check) -> Level:
    """Return the worst level among a check's findings."""
    return max((finding.level for finding in check()), key=[Level.OK, Level.WARN, Level.FAIL].index)


def test_running_services_pass_the_checks(installation):
    with embedded.running(installation.VAR):
        assert [level_of(check) for check in (check_database, check_broker)] == [Level.OK, Level.OK]


def test_stopped_embedded_service_gives_a_warning_with_the_start_command(installation):
    for check in (check_database, check_broker):
        (finding,) = check()
        assert finding.level is Level.WARN
        assert "manage.py up" in finding.mend


def test_configured_server_that_does_not_answer_is_a_failure(installation):
    installation.DATABASE_URL = "postgresql://nobody:wrong@127.0.0.1:1/none"
    installation.REDIS_URL = "redis://127.0.0.1:1/0"
    assert [level_of(check) for check in (check_database, check_broker)] == [Level.FAIL, Level.FAIL]


def test_broker_with_an_evicting_memory_policy_is_a_failure(installation):
    with embedded.running(installation.VAR) as (_, redis_url):
        redis.Redis.from_url(redis_url).config_set("maxmemory-policy", "allkeys-lru")
        assert level_of(check_broker) is Level.FAIL


def test_secret_file_readable_by_others_is_a_failure(installation):
    (installation.VAR / "secrets" / "valkey_password").chmod(0o644)
    (finding,) = check_secrets()
    assert finding.level is Level.FAIL
    assert "valkey_password" in finding.text


def test_debug_mode_with_a_public_host_is_a_failure(installation):
    installation.DEBUG = True
    installation.ALLOWED_HOSTS = ["rft.example.org"]
    assert level_of(check_secrets) is Level.FAIL


def test_check_lists_services_that_receive_a_secret_without_showing_it(settings):
    settings.JUDGE_KEYS = {}
    settings.ENVIRONMENT_KEYS = {"env.example.org": "s3cret"}
    assert [finding.text for finding in check_keys()] == [
        "environments at env.example.org are shown one of ours"
    ]


def test_missing_supervisor_is_a_warning(installation):
    assert level_of(check_supervisor) is Level.WARN


def test_too_little_disk_space_is_a_failure(installation, monkeypatch):
    monkeypatch.setattr("rftweb.doctor.machine.MIN_DISK_BYTES", 2**80)
    assert level_of(check_disk) is Level.FAIL


def test_separate_disk_for_weights_is_checked_too(installation, tmp_path):
    installation.WEIGHTS_ROOT = tmp_path / "elsewhere"
    assert [str(tmp_path / "elsewhere") in finding.text for finding in check_disk()] == [
        False,
        True,
    ]


def test_machine_without_torch_gets_only_a_warning(monkeypatch):
    monkeypatch.setattr("rftweb.doctor.installation.find_spec", lambda name: None)
    (finding,) = check_engine()
    assert finding.level is Level.WARN
    assert "no explorer" in finding.text


def test_engine_that_does_not_load_in_time_is_a_failure(monkeypatch):
    monkeypatch.setattr("rftweb.doctor.installation.PROBE_SECONDS", 0.001)
    assert level_of(check_engine) is Level.FAIL


def test_missing_sandbox_gives_a_warning(monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda *_, **__: None)
    languages._find_tool.cache_clear()
    (finding,) = check_sandbox()
    assert finding.level is Level.WARN
    assert "no sandbox" in finding.text


def test_missing_page_renderer_gives_a_warning_with_what_to_install(monkeypatch):
    assert level_of(check_pages) is Level.OK
    monkeypatch.setitem(sys.modules, "weasyprint.text.fonts", None)
    rendering._fonts.cache_clear()
    (finding,) = check_pages()
    assert finding.level is Level.WARN
    assert "cannot be scored" in finding.text and "libpango" in finding.mend


def test_package_version_that_differs_from_the_lock_file_is_reported(tmp_path, monkeypatch):
    lock = tmp_path / "base.lock"
    lock.write_text("django==1.0 \\\n    --hash=sha256:0\n")
    monkeypatch.setattr("rftweb.doctor.installation.LOCK", lock)
    (finding,) = check_versions()
    assert "instead of 1.0" in finding.text


def test_unknown_applied_migration_is_a_failure_with_a_remedy(db):
    assert level_of(check_migrations) is Level.OK
    MigrationRecorder(connection).record_applied("runs", "0023_weights_pushed")
    (finding,) = check_migrations()
    assert finding.level is Level.FAIL
    assert "runs.0023_weights_pushed" in finding.text and "RFTWEB_VAR" in finding.mend


NEED_A_DATABASE = (
    "check_engine",
    "check_migrations",
    "check_control",
    "check_trainer_processes",
)


def test_missing_control_worker_is_a_failure_with_a_remedy(db):
    for role in ("web", "beat"):
        Worker.every.create(key=f"{role}@here:1:1", role=role, host="here", pid=1)
    Worker.every.update(started_at=after(-200))
    (finding,) = check_control()
    assert finding.level is Level.FAIL and "No control worker is running" in finding.mend
    Worker.every.create(key="control@here:1:1", role="control", host="here", pid=1, swept_at=Now())
    (finding,) = check_control()
    assert finding.level is Level.OK


def test_every_finding_that_is_not_ok_has_a_remedy(installation):
    quick = [check for check in CHECKS if check.__name__ not in NEED_A_DATABASE]
    findings = [finding for check in quick for finding in check()]
    assert all(finding.mend for finding in findings if finding.level is not Level.OK)


@pytest.mark.slow
def test_doctor_command_exits_with_1_on_failure_and_prints_json(var):
    environment = {**os.environ, "RFTWEB_VAR": str(var), "REDIS_URL": "redis://127.0.0.1:1/0"}
    command = [sys.executable, ROOT / "manage.py", "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert {"subject", "level", "text", "mend"} == set(report[0])
    assert [entry["subject"] for entry in report if entry["level"] == "fail"] == ["broker"]
