"""A trainer of two processes on the whole stack: it trains, and either process may be killed."""

import os
import signal

import psutil
import pytest

from tests.descent import children

pytestmark = [pytest.mark.stack, pytest.mark.slow]
PLANNED = 9
USES = (
    "SELECT max(uses) FROM buffer_experience e JOIN runs_run r ON r.id = e.run_id WHERE r.slug = %s"
)
LOST = """SELECT count(*) FROM streaming_event e JOIN runs_run r ON r.topic_id = e.topic_id
          WHERE r.slug = %s AND e.kind = 'rank_lost'"""


def ranks_of(installation) -> list[psutil.Process]:
    """Return the trainer's processes other than its pool child."""
    trainer = psutil.Process(installation.stack.pid("trainer"))
    found = trainer.children(recursive=True)
    return [process for process in found if "workers.trainer.rank" in process.cmdline()]


def at_step(installation, slug: str, step: int) -> None:
    installation.wait(f"{slug} at step {step}", lambda: installation.step(slug) >= step)


@pytest.mark.nightly
@pytest.mark.parametrize("sharding", ["ddp", "fsdp2"])
def test_run_with_two_trainer_processes_survives_kill_9_of_either(installation, tmp_path, sharding):
    slug = f"two-{sharding}"
    trainer = {"processes": 2, "sharding": sharding}
    installation.begin(slug, tmp_path, trainer=trainer, steps=PLANNED)
    at_step(installation, slug, 3)
    (second,) = ranks_of(installation)
    second.kill()
    at_step(installation, slug, 6)
    assert installation.one(LOST, slug) == 1
    (second,) = ranks_of(installation)
    for child in children(installation.stack.pid("trainer")):
        os.kill(child, signal.SIGKILL)
    installation.wait("its other process ended too", lambda: not second.is_running())
    installation.wait_completed(slug)
    assert installation.step(slug) == PLANNED
    assert installation.one(USES, slug) == 1
    assert installation.violations() == {}
