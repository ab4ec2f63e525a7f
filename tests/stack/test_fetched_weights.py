"""Two exploring machines that share no folder with the trainer: a complete run, over HTTP.

The machines are processes here, each with a folder of its own for data and weights. Where the
trainer's machine has its weights there is nothing for them: a file system of their own hides it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from rftweb.embedded import postgres_url, redis_url
from rftweb.supervisor import Supervisor
from tests.stack.conftest import LEASE_SECONDS, PATIENCE_S, WEIGHTS_SECRET, Installation

pytestmark = [pytest.mark.stack, pytest.mark.slow]
STEPS = 3
# More rollouts per step than one explorer samples at once (256), so that both have work.
SHAPE = {"group_size": 16, "groups_per_step": 20, "sampling": {"max_tokens": 4}}
ACKNOWLEDGED = """SELECT w.key, max(v.version) FROM runs_acknowledgement a
                  JOIN runs_worker w ON w.id = a.worker_id
                  JOIN runs_weightversion v ON v.id = a.weight_version_id
                  JOIN runs_run r ON r.id = v.run_id WHERE r.slug = %s GROUP BY w.key"""
WRONG = """SELECT count(*) FROM runs_acknowledgement a
           JOIN runs_weightversion v ON v.id = a.weight_version_id
           WHERE a.fingerprint <> v.fingerprint"""


@pytest.fixture
def training_machine(installation) -> Iterator[Installation]:
    """Yield the installation, with its own explorer drained."""
    order = """UPDATE runs_worker SET "order" = %s WHERE role = 'explorer' RETURNING key"""
    installation.sql(order, "drain")
    yield installation
    installation.sql(order, "")


class Elsewhere(Supervisor):
    """A machine with explorers only; the folders in `hidden` are empty there."""

    def __init__(self, var: Path, home: Installation, hidden: list[Path]) -> None:
        home_var = Path(home.env["RFTWEB_VAR"])
        environment = {
            "DATABASE_URL": postgres_url(home_var),
            "REDIS_URL": redis_url(home_var),
            "RFTWEB_SECRET_KEY": (home_var / "secrets" / "secret_key").read_text(),
            "RFTWEB_WEIGHTS_URL": home.stack.address,
            "RFTWEB_WEIGHTS_SECRET": WEIGHTS_SECRET,
            "RFTWEB_LEASE_SECONDS": str(LEASE_SECONDS),
            "RFTWEB_SLICE_SECONDS": "3",
            "OMP_NUM_THREADS": "1",
        }
        super().__init__(var, roles=["explorer"], env=environment, quiet=True)
        mounts = [f"mount -t tmpfs none '{folder}' && " for folder in hidden]
        hide = "".join(mounts) + 'exec "$@"'
        namespace = ["unshare", "--user", "--map-root-user", "--mount"]
        self._command = [*namespace, "sh", "-c", hide, "sh", *self._command]


@pytest.fixture
def exploring_machines(training_machine, tiny_folder, tmp_path) -> Iterator[list[Path]]:
    """Start two machines, yield their data folders, and stop the machines."""
    home = training_machine
    folders = [tmp_path / name for name in ("first", "second")]
    hidden = [Path(home.env["RFTWEB_VAR"]) / "weights", tiny_folder]
    machines = [Elsewhere(folder, home, hidden) for folder in folders]
    with ExitStack() as ending:
        threads = ending.enter_context(ThreadPoolExecutor(len(machines)))
        ending.callback(lambda: list(threads.map(Elsewhere.stop, machines)))
        for machine in machines:
            machine.start()
        for machine in machines:
            machine.wait_ready(PATIENCE_S)
        yield folders


@pytest.mark.nightly
def test_run_completes_with_explorers_that_share_no_folder_with_its_trainer(
    training_machine, exploring_machines, tmp_path
):
    home = training_machine
    home.begin("far", tmp_path, steps=STEPS, max_staleness=0, **SHAPE)
    home.wait_completed("far")
    assert home.step("far") == STEPS
    acknowledged = dict(home.sql(ACKNOWLEDGED, "far"))
    assert len(acknowledged) == 2, acknowledged
    assert max(acknowledged.values()) >= STEPS - 1
    assert home.one(WRONG) == 0
    for folder in exploring_machines:
        fetched = folder / "weights" / "fetched"
        assert list(fetched.glob("policies-*/tokenizer.json"))
        assert list(fetched.glob("versions-*/model.safetensors"))
        assert list(fetched.glob("*.tmp")) == []
    assert home.violations() == {}
