"""Old weights are deleted from disk; their rows, and weights that are still needed, stay."""

from pathlib import Path

import pytest

from apps.dashboard.reconciliation import reconcile
from apps.runs.models import Acknowledgement, Run, StaleFence, WeightVersion, Worker
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.trainer import weight_store

KEEP_TWO = {"every": 2, "weights": 2}


def states(run: Run) -> dict[int, str]:
    return dict(run.weight_versions.values_list("version", "state"))


def on_disk(run: Run) -> set[int]:
    return {
        version.version for version in run.weight_versions.all() if Path(version.folder).exists()
    }


@pytest.fixture
def explorer(db) -> Worker:
    return Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)


def acknowledge(run: Run, version: int, worker: Worker) -> None:
    row = run.weight_versions.get(version=version)
    Acknowledgement.record(
        row, worker, fingerprint=row.fingerprint, probe_gap=0.0, milliseconds=1.0
    )


def test_newest_versions_and_the_base_keep_their_folders(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(checkpoints=KEEP_TWO))
    assert on_disk(run) == {0, 5, 6}
    assert states(run) == {
        0: "published",
        **dict.fromkeys(range(1, 5), "retired"),
        5: "published",
        6: "published",
    }
    assert {name for name, found in reconcile().items() if found} <= {
        "engines served what was published"
    }


def test_milestone_versions_keep_their_folders(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(checkpoints={**KEEP_TWO, "milestones": 3}))
    assert on_disk(run) == {0, 3, 5, 6}


def test_version_served_by_a_live_engine_is_kept_until_it_serves_a_newer_one(
    tiny_run, new_loop, explorer
):
    run = tiny_run(checkpoints=KEEP_TWO)
    loop = new_loop()
    feed(run)
    loop.serve()
    acknowledge(run, 1, explorer)
    for _ in range(3):
        feed(run)
        loop.serve()
    assert on_disk(run) == {0, 1, 3, 4}
    acknowledge(run, 4, explorer)
    feed(run)
    loop.serve()
    assert on_disk(run) == {0, 4, 5}


def test_version_served_by_a_stopped_engine_is_not_kept(tiny_run, new_loop, explorer):
    run = tiny_run(checkpoints=KEEP_TWO)
    loop = new_loop()
    feed(run)
    loop.serve()
    acknowledge(run, 1, explorer)
    explorer.stop()
    run = train_to_the_end(loop, run)
    assert on_disk(run) == {0, 5, 6}


def test_next_trainer_deletes_folders_left_from_retired_versions(tiny_run, new_loop):
    run = tiny_run()
    first = new_loop()
    feed(run)
    first.serve()
    feed(run)
    first.serve()
    run.weight_versions.filter(version=1).update(
        state=WeightVersion.State.RETIRED
    )  # and then its trainer died
    first.stop()
    feed(run)  # a trainer claims a run only when it has work
    new_loop().serve()
    assert 1 not in on_disk(run)


def test_trainer_with_an_old_fence_deletes_nothing(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    for _ in range(3):
        feed(run)
        loop.serve()
    run.refresh_from_db()
    run.change_config(None, checkpoints={"weights": 2})
    with pytest.raises(StaleFence):
        weight_store.delete_retired_folders(run, run.fence - 1)
    assert on_disk(run) == {0, 1, 2, 3}
    weight_store.delete_retired_folders(run, run.fence)
    assert on_disk(run) == {0, 2, 3}


def test_retiring_versions_records_an_event(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(checkpoints=KEEP_TWO))
    assert [
        event.payload["versions"]
        for event in run.topic.events.filter(kind="weights_retired").order_by("sequence")
    ] == [
        [1],
        [2],
        [3],
        [4],
    ]
