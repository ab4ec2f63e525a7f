"""Each explorer and each trainer sees the GPUs that were configured for it, or one GPU each."""

import subprocess
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from rftweb import environment
from rftweb.supervisor import devices
from rftweb.supervisor.devices import Pool, assign_devices
from rftweb.supervisor.program import CannotStart
from rftweb.supervisor.roles import Plan, programs, worker_program

BOTH = [("explorer", "explorer"), ("trainer", "trainer")]
MORE = [("explorer", "explorer"), ("explorer", "explorer-2"), ("trainer", "trainer")]
NOTHING = {"explorer": (), "trainer": ()}


def pool(*gpus: str) -> Pool:
    return Pool(gpus, "nvidia-smi", bool(gpus))


@pytest.mark.parametrize(
    ("workers", "chosen", "gpus", "seen"),
    [
        (BOTH, NOTHING, [], {}),
        (BOTH, NOTHING, ["0"], {}),
        (BOTH, NOTHING, ["0", "1"], {"explorer": "0", "trainer": "1"}),
        (MORE, NOTHING, ["0", "1"], {"explorer": "0", "explorer-2": "1", "trainer": "0"}),
        (
            BOTH,
            {"explorer": (("0",),), "trainer": (("0",),)},
            ["0", "1"],
            {"explorer": "0", "trainer": "0"},
        ),
        (
            BOTH,
            {"explorer": (("0", "1"),), "trainer": ()},
            ["0", "1", "2"],
            {"explorer": "0,1", "trainer": "2"},
        ),
        (
            MORE,
            {"explorer": (("0", "1"), ("2", "3")), "trainer": (("4",),)},
            list("01234"),
            {"explorer": "0,1", "explorer-2": "2,3", "trainer": "4"},
        ),
        (BOTH, {"explorer": (("GPU-a",),), "trainer": ()}, [], {"explorer": "GPU-a"}),
    ],
)
def test_workers_get_their_chosen_gpus_or_one_each_in_turn(workers, chosen, gpus, seen):
    assert assign_devices(workers, chosen, pool(*gpus)) == seen


def test_start_fails_with_the_variable_name_when_its_gpu_does_not_exist():
    with pytest.raises(
        CannotStart, match="RFTWEB_TRAINER_GPU names GPU 2, and nvidia-smi has 0, 1"
    ):
        assign_devices(BOTH, {"explorer": (), "trainer": (("2",),)}, pool("0", "1"))


def test_only_devices_in_cuda_visible_devices_are_assigned(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-b")
    here = Pool.here()
    assert assign_devices(BOTH, NOTHING, here) == {"explorer": "3", "trainer": "GPU-b"}
    with pytest.raises(CannotStart, match="CUDA_VISIBLE_DEVICES has 3, GPU-b"):
        assign_devices(BOTH, {"explorer": (("0",),), "trainer": ()}, here)


def test_gpus_and_uuids_are_read_from_the_nvidia_smi_listing(monkeypatch):
    lines = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)\n"
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(
        subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=0, stdout=lines)
    )
    here = Pool.here()
    assert (here.gpus, here.uuids) == (("0", "1"), ("GPU-aa", "GPU-bb"))
    here.require("RFTWEB_EXPLORER_GPU", ["1", "GPU-aa", "MIG-c"])


def test_worker_sees_only_its_own_gpus(monkeypatch, settings, tmp_path):
    settings.EXPLORER_GPUS = (("0", "1"),)
    settings.TRAINER_GPUS = (("2",),)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "_listed", lambda: [(str(n), f"GPU-{n}") for n in range(4)])
    plan = Plan(var=tmp_path, roles=("explorer", "trainer", "scorer"))
    seen = {one.name: one.environment.get("CUDA_VISIBLE_DEVICES") for one in programs(plan)}
    assert seen == {"explorer": "0,1", "trainer": "2", "scorer": None}


def test_up_reports_the_variable_that_lists_a_missing_gpu(monkeypatch, settings, tmp_path):
    settings.VAR = settings.WEIGHTS_ROOT = settings.IMPORTS_ROOT = tmp_path
    settings.TRAINER_GPUS = (("7",),)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(CommandError, match="RFTWEB_TRAINER_GPU names GPU 7"):
        call_command("up", only="explorer,trainer", no_embedded=True)


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        ("", ()),
        ("0", (("0",),)),
        ("0, 1; 2,3", (("0", "1"), ("2", "3"))),
        ("GPU-8a-2", (("GPU-8a-2",),)),
    ],
)
def test_gpu_setting_is_parsed_into_groups_per_worker(monkeypatch, value, groups):
    monkeypatch.setenv("RFTWEB_EXPLORER_GPU", value)
    assert environment.gpus_by_worker("RFTWEB_EXPLORER_GPU") == groups


@pytest.mark.parametrize("value", ["first", "0,", "-1", "0;;1", "0,0", "cuda:0", "0 1"])
def test_invalid_gpu_setting_is_refused_with_the_variable_name(monkeypatch, value):
    monkeypatch.setenv("RFTWEB_EXPLORER_GPU", value)
    with pytest.raises(ImproperlyConfigured, match="RFTWEB_EXPLORER_GPU is"):
        environment.gpus_by_worker("RFTWEB_EXPLORER_GPU")


def test_roles_that_run_models_at_the_same_time_share_the_cores(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    plan = Plan(tmp_path, 8000)
    threads = {
        role: worker_program(plan, role, role, None).environment.get("OMP_NUM_THREADS")
        for role in ("explorer", "trainer", "scorer", "refiner")
    }
    assert threads == {"explorer": "4", "trainer": "4", "scorer": "4", "refiner": None}
