"""TensorBoard's own reader finds the written metrics; without the package (scripts/setup --with
tensorboard) these tests are skipped.
"""

from io import StringIO

import pytest
from django.core.management import call_command

from apps.runs.writers.following import hand_over
from apps.runs.writers.tensorboard import TensorBoard

accumulators = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="not installed: scripts/setup --with tensorboard",
)


def read(folder, run) -> dict[str, list[tuple[int, float]]]:
    found = accumulators.EventAccumulator(
        str(folder / f"lab-{run.slug}"), size_guidance={"scalars": 0}
    )
    found.Reload()
    return {
        tag: [(event.step, round(event.value, 5)) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_tensorboard_reader_finds_each_step_once_after_repeated_writes(measured, tmp_path):
    run = measured(1, 2, 3)
    for steps in ((), (4,), ()):
        measured(*steps)
        call_command(
            "metrics",
            "write",
            run.slug,
            "--target",
            "tensorboard",
            "--folder",
            str(tmp_path),
            stdout=StringIO(),
        )
    found = read(tmp_path, run)
    assert found["kl"] == [(1, 0.01), (2, 0.02), (3, 0.03), (4, 0.04)]
    assert (
        found["weight_version"] == [(1, 0), (2, 1), (3, 1), (4, 2)]
        and len(found["reward_mean"]) == 4
    )


def test_times_are_those_of_the_metrics(measured, tmp_path):
    run = measured(1)
    target = TensorBoard(run, tmp_path)
    hand_over(run, target)
    target.close(is_over=False)
    found = accumulators.EventAccumulator(str(target.folder))
    found.Reload()
    at = run.metrics.earliest("at").at.timestamp()
    assert found.Scalars("kl")[0].wall_time == pytest.approx(at, abs=1e-3)


def test_truncated_file_is_continued_after_its_last_complete_step(measured, tmp_path):
    run = measured(1, 2)
    first = TensorBoard(run, tmp_path)
    hand_over(run, first)
    first.close(is_over=False)
    [path] = first.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-7])  # cut within the record of step 2
    assert TensorBoard(run, tmp_path).last_step() == 1
    again = TensorBoard(run, tmp_path)
    hand_over(run, again)
    again.close(is_over=False)
    assert read(tmp_path, run)["kl"] == [(1, 0.01), (2, 0.02)]
