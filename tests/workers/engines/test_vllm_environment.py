"""The environment of vLLM's processes before they import our code; needs no vLLM."""

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.descent import is_alive
from workers.engines import vllm_environment
from workers.engines.vllm_children import end_with_parent

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def clean(monkeypatch):
    """Provide an environment without settings for vLLM, and restore it after the test."""
    for name in vllm_environment.ALWAYS | vllm_environment.ON_CPU:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_environment_variables_set_by_the_operator_are_kept(clean, monkeypatch):
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "2-5")
    vllm_environment.prepare_environment(on_gpu=False)
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "2-5"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"


def test_gpu_gets_no_cpu_settings_and_spawned_processes(clean):
    vllm_environment.prepare_environment(on_gpu=True)
    assert "TORCHDYNAMO_DISABLE" not in os.environ
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


def test_vllm_finds_the_plugin_that_ends_its_processes_with_their_parent(clean):
    vllm_environment.prepare_environment(on_gpu=False)
    announced = [
        entry
        for dist in distributions(path=sys.path)
        for entry in dist.entry_points.select(group="vllm.general_plugins")
    ]
    assert end_with_parent in [
        entry.load() for entry in announced if entry.name == "rftweb_die_with_parent"
    ]


PARENT = """
import multiprocessing, sys, time

def child(pipe):
    from workers.engines.vllm_children import end_with_parent
    end_with_parent()
    pipe.send(True)
    time.sleep(300)

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(theirs,))
    process.start()
    ours.recv()
    print(process.pid, flush=True)
    time.sleep(300)
"""


def test_child_dies_when_its_parent_is_killed(tmp_path, eventually):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.communicate()
    eventually(lambda: not is_alive(child), 60)


def test_process_that_was_not_spawned_is_not_ended():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "from workers.engines.vllm_children import end_with_parent; end_with_parent();"
                " print('alive')"
            ),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "alive\n"
