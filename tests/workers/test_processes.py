"""A pool child dies with its parent and can have its own children, tested with a real Celery
prefork worker.
"""

import gc
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from django.conf import settings

from tests.descent import is_alive
from workers.processes import loading_libraries

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
    import multiprocessing, os, pathlib, sys, time
    from celery import Celery
    from celery.signals import worker_ready
    import workers.processes

    app = Celery("probe", broker=%(broker)r)
    app.conf.update(task_default_queue=%(queue)r, worker_enable_remote_control=False)

    def said(path):
        pathlib.Path(path).write_text(str(os.getpid()))

    @app.task(name="spawn")
    def spawn(folder):
        spawn = multiprocessing.get_context("spawn")
        child = spawn.Process(target=said, args=(folder + "/grandchild",))
        child.start()
        child.join(200)
        pathlib.Path(folder + "/child").write_text(str(os.getpid()))
        time.sleep(600)

    @worker_ready.connect
    def go(**_):
        spawn.delay(%(folder)r)
"""


@pytest.fixture
def worker(tmp_path):
    """Start a worker with one pool child that is in the middle of a job."""
    module = tmp_path / "probe.py"
    module.write_text(
        textwrap.dedent(
            PROBE
            % {
                "broker": settings.CELERY_BROKER_URL,
                "queue": f"probe-{os.getpid()}",
                "folder": str(tmp_path),
            }
        )
    )
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "probe",
        "worker",
        "-P",
        "prefork",
        "-c",
        "1",
        "--without-gossip",
        "--without-mingle",
    ]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_pool_child_can_have_children_and_dies_with_its_parent(worker, tmp_path, eventually):
    child = int(
        eventually(
            lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text(), seconds=300
        )
    )
    assert (tmp_path / "grandchild").exists(), "the pool child could start its own process"
    assert is_alive(child)
    worker.send_signal(signal.SIGKILL)
    eventually(lambda: not is_alive(child), 60)


def test_loaded_objects_are_excluded_from_garbage_collection():
    with loading_libraries():
        assert not gc.isenabled()
        kept = [[]]
    assert gc.isenabled()
    assert all(one is not kept for one in gc.get_objects())
