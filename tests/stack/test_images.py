"""What is shipped builds and starts: both images of the Dockerfile, and every service of
docker-compose.yml in them, which then train a run of the demo to its end.

buildah builds and runs them without a container engine (tests/containers.py). Images and layers are
kept in the user's cache, so that a second build takes a few seconds. It takes 4 to 10 minutes and 1
GB of downloads, so it is part of `make test-long` alone; it needs root, buildah and debootstrap.
"""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.containers import ROOT, SERVERS, Containers, running

pytestmark = [pytest.mark.nightly, pytest.mark.stack, pytest.mark.timeout(1_800)]
STEPS = 3
RUN_S = 600
WEIGHTS = "/var/lib/rftweb/weights/policies"
FURNISH = """
from pathlib import Path
from rftweb.demonstration.furnishing import furnish_demonstration, newest_run
furniture = furnish_demonstration({"sort": Path(%r)})
newest_run(furniture.project, "sort", %d).start()
"""
IMPORT = """
from apps.accounts.models import Project, User
from apps.streaming import wakeups
from apps.tasksets.import_files import create_import
root, project = User.objects.get(username="demo"), Project.objects.get(slug="demo")
text = b'{"prompt": "1", "answer": "1"}\\n{"prompt": "2", "answer": "2"}\\n'
create_import(project, root, "tasks.jsonl", len(text), [text])
wakeups.send("import_tasksets")
"""
STORE_IMPORT = """
from apps.accounts.models import User
from apps.streaming import wakeups
from apps.tasksets.models import TasksetImport
one = TasksetImport.objects.get()
one.start("from-a-file", one.how, User.objects.get(username="demo"))
wakeups.send("import_tasksets")
"""
READY = """
import urllib.request
with urllib.request.urlopen("http://127.0.0.1:8000/readyz", timeout=60) as answer:
    print(answer.status)
"""


def _load_images():
    """Import scripts/images.py, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("images", ROOT / "scripts" / "images.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look the module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def images():
    return _load_images()


@pytest.fixture(scope="module")
def store(images) -> Path:
    """Build both images; return the folder of buildah's store."""
    if reason := images.why_no_buildah():
        pytest.skip(f"buildah cannot build images here: {reason}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rftweb" / "images"
    if not images.has_base(folder) and not images.mirror_answers():
        pytest.skip("no Debian mirror answers, and there is no base image from an earlier test")
    began = time.monotonic()
    images.make_base(folder)
    print(f"base: {time.monotonic() - began:.0f} s")
    for target in images.TARGETS:
        built = images.build(target, "buildah", folder, torch="cpu")
        print(f"{built.name}: {built.seconds:.0f} s, {built.size / 1e6:,.0f} MB")
    return folder


@pytest.fixture(scope="module")
def containers(images, store, tmp_path_factory) -> Iterator[Containers]:
    began = time.monotonic()
    with running(images.builder_command("buildah", store), tmp_path_factory.mktemp("c")) as started:
        print(f"all healthy after {time.monotonic() - began:.0f} s")
        yield started


@pytest.fixture(scope="module")
def ours(containers) -> list[str]:
    return [name for name in containers.services if name not in SERVERS]


def _one(containers: Containers, query: str) -> object:
    with psycopg.connect(containers.server.url, connect_timeout=5) as connection:
        row = connection.execute(query).fetchone()
    return row and row[0]


def _wait(containers: Containers, query: str, wanted: object, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while (found := _one(containers, query)) != wanted:
        for name, process in containers.processes.items():
            ended = process.poll()
            assert ended is None or name == "migrate", (
                f"{name} ended: {containers.log(name)[-2000:]}"
            )
        assert found not in ("failed", "stopped"), _one(
            containers, "SELECT state_reason FROM runs_run"
        )
        assert time.monotonic() < ends, f"{query}: {found!r} after {seconds} s"
        time.sleep(0.2)  # a polling interval, limited by the deadline


def test_demo_run_trains_to_its_end(containers):
    began = time.monotonic()
    build = ("python", "-m", "workers.policies.build", "sort", "--out", WEIGHTS)
    built = json.loads(containers.execute("explorer", *build, seconds=RUN_S).splitlines()[-1])
    print(f"policy: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    shell = ("python", "manage.py", "shell", "-c")
    containers.execute("web", *shell, FURNISH % (built["folder"], STEPS))
    _wait(containers, "SELECT state FROM runs_run", "completed", RUN_S)
    print(f"run of {STEPS} steps: {time.monotonic() - began:.0f} s")
    assert _one(containers, "SELECT step FROM runs_run") == STEPS
    found = json.loads(containers.execute("web", "python", "manage.py", "reconcile", "--json"))
    assert {check: said for check, said in found.items() if said} == {}


def test_imported_file_becomes_a_taskset(containers):
    """`web` stores the file, `control` reads it in a separate process."""
    shell = ("python", "manage.py", "shell", "-c")
    state = "SELECT state FROM tasksets_tasksetimport"
    containers.execute("web", *shell, IMPORT)
    _wait(containers, state, "looked_at", 120)
    containers.execute("web", *shell, STORE_IMPORT)
    _wait(containers, state, "done", 120)
    assert _one(containers, "SELECT size FROM tasksets_taskset WHERE slug = 'from-a-file'") == 2


def test_web_reports_that_everything_is_ready(containers):
    assert containers.execute("web", "python", "-c", READY).strip() == "200"


def test_services_run_without_root_or_a_way_to_gain_it(containers, ours):
    for name in ours:
        if name == "migrate":
            continue
        process = containers.main_process(name)
        assert process.uids().real != 0, name
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status, name
        assert "CapEff:\t0000000000000000" in status, name


def test_services_run_in_a_separate_network(containers):
    inside = os.stat(f"/proc/{containers.main_process('web').pid}/ns/net").st_ino
    assert inside != os.stat("/proc/self/ns/net").st_ino


def test_services_with_a_read_only_file_system_write_only_to_volumes(containers, ours):
    """A file that is newer than the image was written by the service."""
    for name in ours:
        if containers.services[name].get("read_only"):
            assert containers.written(name) == [], name


def test_images_contain_nothing_that_only_the_build_needs(containers):
    for name in ("web", "explorer"):
        root = containers.root(name)
        for folder in ("run/secrets", "run/pip", "root/.cache", "var/lib/apt/lists"):
            files = [path for path in (root / folder).rglob("*") if not path.is_dir()]
            assert files == [], f"{name}: {folder}"
        tools = [
            tool for tool in ("gcc", "cc", "make", "git") if (root / "usr/bin" / tool).exists()
        ]
        assert tools == [], name
        assert not (root / "srv/rftweb/tests").exists()


def test_all_services_stop_cleanly_on_request(containers):
    """This is the last test: it stops all services. Each exits by itself, in time."""
    processes = [psutil.Process(process.pid) for process in containers.processes.values()]
    tree = [one for process in processes if process.is_running() for one in process.children(True)]
    for name in reversed(list(containers.processes)):
        containers.stop(name)
    print({name: round(seconds, 1) for name, seconds in containers.stop_seconds.items()})
    assert {name: code for name, code in containers.exit_codes.items() if code} == {}
    assert [process for process in tree if process.is_running()] == []
