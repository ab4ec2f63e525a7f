"""The control plane responds in time while workers are busy, with the default settings.

Two runs are live, one training and one waiting for people, with slices of ten seconds. Meanwhile
imports, exports, deliveries and expired leases are served within ten seconds each. The runs are
watched for 45 seconds, and for three minutes by `make test-long`.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import profiles
from tests.alerts.sinks import receiver
from tests.stack.conftest import FURNISH, ROOT, Installation, running

pytestmark = [pytest.mark.stack, pytest.mark.slow]
SHIPPED = {"RFTWEB_SLICE_SECONDS": "10", "RFTWEB_LEASE_SECONDS": "30"}
WATCHED_S = 180 if profiles.IS_LONG else 45
SERVED_S = 10.0
# The time to start a Python process with Django on an idle machine; each import and export starts
# one.
USUAL_START_S = 2.0
PROBE = ROOT / "tests" / "stack" / "control_probe.py"


@pytest.fixture(scope="module")
def busy(tmp_path_factory, tiny_folder):
    """Start an installation in which one run keeps training, and another waits for people."""
    folder = tmp_path_factory.mktemp("busy")
    with receiver() as hook:
        listed = {"RFTWEB_ENVIRONMENT_HOSTS": f"127.0.0.1:{hook.port}"}
        with running(folder / "var", **SHIPPED, **listed) as installation:
            installation.must("shell", "-c", FURNISH % str(tiny_folder))
            installation.begin("training", folder, steps=1_000_000)
            people = {"per_group": 2, "deadline_s": 86_400}
            installation.begin("waiting", folder, steps=1_000_000, people=people)
            installation.wait("training trains", lambda: installation.step("training") >= 2)
            waits = "SELECT count(*) FROM rollouts_group WHERE state = 'waiting'"
            installation.wait("one waits for people", lambda: installation.one(waits))
            yield installation, hook


def slowness(installation: Installation) -> float:
    """Return how much longer than usual a process takes to start now; 1 on an idle machine."""
    command = [sys.executable, "-c", "import django; django.setup()"]
    environment = {**os.environ, **installation.env, "DJANGO_SETTINGS_MODULE": "rftweb.settings"}
    began = time.monotonic()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return max(1.0, (time.monotonic() - began) / USUAL_START_S)


def test_control_work_is_served_in_time_while_runs_are_busy(busy):
    installation, hook = busy
    slow = slowness(installation)
    command = [sys.executable, str(PROBE), str(WATCHED_S), hook.address]
    environment = {**os.environ, **installation.env}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1_200
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"slowness {slow:.1f}: {json.dumps(found)}")
    slow = max(slow, slowness(installation))
    late = {kind: took for kind, took in found["served_s"].items() if max(took) > SERVED_S * slow}
    assert late == {} and set(found["served_s"]) == {"import", "export", "delivery", "lease"}
    assert found["most_queued"] and max(found["most_queued"].values()) == 1
    log = Path(installation.env["RFTWEB_VAR"]) / "log"
    assert not [path.name for path in log.glob("*.log") if "Discarding" in path.read_text()]
    assert installation.step("training") > 2
