"""vLLM inside a real Celery pool child: its processes can start, can die and be replaced, and die
with the worker.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from django.conf import settings

from tests.descent import descendants, is_alive

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
START_SECONDS = 300  # 20 s on an idle machine; vLLM is imported in three processes
ROOT = Path(__file__).resolve().parents[3]
JOBS = """
    import json, os, pathlib, signal, time
    import django; django.setup()
    from celery import Celery
    from celery.signals import worker_ready
    import workers.processes

    app = Celery("jobs", broker=%(broker)r)
    app.conf.update(task_default_queue=%(queue)r, worker_enable_remote_control=False)
    FOLDER, REPORT = pathlib.Path(%(policy)r), pathlib.Path(%(folder)r)
    kept = {}

    def report(name, **facts):
        unfinished = REPORT / (name + ".tmp")
        unfinished.write_text(json.dumps({"pid": os.getpid(), **facts}))
        unfinished.rename(REPORT / name)

    def processes():
        import multiprocessing
        return [child.pid for child in multiprocessing.active_children()]

    def start():
        from apps.policies.manifest import read_manifest
        from workers.engines.choose import build_engine
        kept["engine"], _ = build_engine("vllm", temperature=1.0, seed=0)
        kept["engine"].start(FOLDER, 1, read_manifest(FOLDER).probe)

    def ask(name, tokens):
        from workers.engines.interface import Request, Sampling
        kept["engine"].submit([Request(name, (5, 6, 7), Sampling(tokens))])

    def listen(seconds):
        \"\"\"Return the tokens, or the seconds until the engine is found dead.\"\"\"
        from workers.engines.interface import EngineDied
        tokens, began = 0, time.monotonic()
        while time.monotonic() < began + seconds:
            try:
                for delta in kept["engine"].drain(0.2):
                    tokens += len(delta.token_ids)
                    if delta.stop_reason:
                        return {"tokens": tokens}
            except EngineDied:
                return {"died_after": time.monotonic() - began}
        return {}

    @app.task
    def first():
        start()
        ask("first", 20)
        report("first", **listen(60))

    @app.task
    def second():
        ask("second", 100)
        while not kept["engine"].drain(0.2):
            pass
        for pid in processes():
            os.kill(pid, signal.SIGKILL)
        died = listen(60)
        kept["engine"].stop()
        start()
        ask("third", 20)
        report("second", **died, **listen(60))

    @worker_ready.connect
    def go(**_):
        first.delay()
        second.delay()
"""


@pytest.fixture
def worker(tmp_path, old):
    """Start a worker whose pool child starts an engine, loses it, and starts another."""
    facts = {
        "broker": settings.CELERY_BROKER_URL,
        "queue": f"vllm-{os.getpid()}",
        "folder": str(tmp_path),
        "policy": str(old),
    }
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS % facts))
    options = ["-P", "prefork", "-c", "1", "--without-gossip", "--without-mingle"]
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", *options]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    yield process
    process.kill()
    process.wait()


@pytest.mark.nightly  # test_vllm_loop.py tests vLLM under Celery in every run
def test_pool_child_replaces_a_killed_engine_and_the_new_one_dies_with_the_worker(
    worker, tmp_path, eventually
):
    def reported(name: str) -> dict | None:
        assert worker.poll() is None, (tmp_path / "log").read_text()[-2000:]
        return json.loads((tmp_path / name).read_text()) if (tmp_path / name).exists() else None

    first = eventually(lambda: reported("first"), START_SECONDS)
    assert first["tokens"] == 20
    second = eventually(lambda: reported("second"), START_SECONDS)
    assert second["died_after"] < 15
    assert second["tokens"] == 20
    assert second["pid"] == first["pid"], "the same pool child holds the new engine"
    family = descendants(worker.pid)
    assert len(family) >= 3, "pool child, engine and its worker"
    worker.send_signal(signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, family)), 60)
