"""The openenv package in its own virtual environment, used against our server over HTTP: its client
and its validator.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from apps.environments.models import Environment, PlaySession
from tests.openenv_process import PYTHON
from tests.streaming.conftest import serve  # noqa: F401

OUTSIDE = Path(__file__).with_name("outside.py")
MAX_SECONDS = 180  # its package imports slowly

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def address(serve, unhurried, project) -> Iterator[str]:
    """Return the address of our server; skip the test without the package's virtual environment."""
    if not PYTHON.exists():
        pytest.skip("the openenv package is not installed: scripts/setup --with openenv")
    Environment.objects.create(
        project=project,
        name="lake",
        kind="gymnasium",
        address="FrozenLake-v1",
        options={"is_slippery": False},
    )
    return serve().replace("ws://", "http://")


@pytest.mark.nightly
@pytest.mark.slow
def test_package_client_plays_episodes_and_its_validator_passes(
    address, guessing, secret, tmp_path, eventually
):
    ran = subprocess.run(
        [PYTHON, OUTSIDE, address, secret], capture_output=True, text=True, timeout=MAX_SECONDS
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["guess"]["said"] == ["yes"] and told["guess"]["reward"] == 1.0
    assert (told["guess"]["state"]["episode_id"], told["guess"]["state"]["step_count"]) == (
        "halves",
        1,
    )
    assert told["cross"] == {
        "reward": 1.0,
        "done": True,
        "metadata": {"terminated": True, "truncated": False},
    }
    assert list(guessing.episodes.values_list("state", "run")) == [("done", None)]
    eventually(lambda: not PlaySession.objects.filter(closed_at=None).exists())
    assert set(PlaySession.objects.values_list("reason", flat=True)) == {"its client closed it"}
    _require_valid(address, secret, tmp_path)


def _require_valid(address: str, secret: str, folder: Path) -> None:
    """Run its validator; the command accepts no header, so its library reads the token from a netrc
    file.
    """
    netrc = folder / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login rftweb password {secret}\n")
    netrc.chmod(0o600)
    command = [
        PYTHON.with_name("openenv"),
        "validate",
        "--url",
        f"{address}/openenv/lab/guess_number",
        "--json",
        "--timeout",
        "60",
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        env={**os.environ, "NETRC": str(netrc)},
    )
    report = json.loads(ran.stdout)
    assert ran.returncode == 0 and report["passed"], ran.stdout + ran.stderr
    assert [one["id"] for one in report["criteria"] if one["passed"]] == [
        "openapi_version_available",
        "health_endpoint",
        "metadata_endpoint",
        "schema_endpoint",
        "mcp_endpoint",
        "mode_endpoint_consistency",
    ]
    assert (report["mode"], report["standard_profile"]) == ("simulation", "openenv-http/1.x")


def test_rejected_handshake_says_why_and_single_moves_work_over_http(address, guessing, secret):
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"{address.replace('http', 'ws')}/openenv/lab/guess_number/ws"),
    ):
        pass
    assert refused.value.response.status_code == 401
    assert "env:play:<name>" in json.loads(refused.value.response.body)["detail"]
    moved = httpx.post(
        f"{address}/openenv/guess_number/reset",
        json={},
        headers={"Authorization": f"Bearer {secret}"},
        timeout=60,
    )
    assert (moved.status_code, moved.json()["done"]) == (200, False)
