"""Updates: non-finite values change nothing, errors reach the caller, runs do not affect each
other.
"""

import math
from dataclasses import replace

import pytest

from tests.workers.trainer.batches import digest, rows
from workers.trainer.batch_queue import TrainerDied


def poisoned(step: int) -> list:
    first, *rest = rows(step)
    return [replace(first, behaviour_logprobs=(math.nan,) * len(first.behaviour_logprobs)), *rest]


def optimizer_steps(host) -> set[float]:
    return {float(state["step"]) for state in host.trainer.optimizer.state.values()}


def test_non_finite_loss_leaves_weights_and_optimizer_unchanged(spec, started):
    assert_left_alone(started(spec()), poisoned(2), "the loss is not finite")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_gradient_leaves_weights_and_optimizer_unchanged(spec, started, value):
    host = started(spec())
    norm = host.trainer.model.model.norm.weight
    once = [1.0, value]
    norm.register_hook(lambda gradient: gradient * (once.pop(0) if once else 1.0))
    assert_left_alone(host, rows(2), "the gradient is not finite")


def assert_left_alone(host, batch, reason):
    """Make an update, one that must be skipped, and one that is applied again; check the states."""
    host.update(rows(1))
    before = digest(host)
    steps = optimizer_steps(host)
    report = host.update(batch)
    assert (report.step, report.skipped, report.blocked) == (2, reason, "")
    assert (digest(host), optimizer_steps(host)) == (before, steps)
    assert host.update(rows(3)).skipped == ""
    assert digest(host) != before


def test_one_infinite_row_in_one_of_many_micro_batches_skips_the_whole_update(spec, started):
    host = started(spec(micro_batch_rows=2))
    before = digest(host)
    first, *rest = rows(1)
    assert (
        host.update([replace(first, advantage=math.inf), *rest]).skipped == "the loss is not finite"
    )
    assert digest(host) == before


def test_batch_without_loss_tokens_gives_zero_loss_and_no_error(spec, started):
    host = started(spec())
    report = host.update([replace(row, action_mask=(0,) * len(row.action_mask)) for row in rows(1)])
    assert (report.skipped, report.metrics["tokens"], report.metrics["loss"]) == ("", 0, 0)


def test_non_finite_metrics_are_not_reported(spec, started):
    report = started(spec()).update(poisoned(1))
    assert all(map(math.isfinite, report.metrics.values()))


def test_three_skipped_updates_in_a_row_block_the_run(spec, started):
    host = started(spec())
    assert [bool(host.update(poisoned(step)).blocked) for step in (1, 2, 3)] == [False, False, True]


def test_an_applied_update_between_skipped_ones_starts_the_count_again(spec, started):
    host = started(spec())
    batches = [poisoned(1), poisoned(2), rows(3), poisoned(4), poisoned(5)]
    assert not any(host.update(batch).blocked for batch in batches)


def test_an_update_recorded_as_skipped_is_skipped_again(spec, started):
    host = started(spec())
    before = digest(host)
    report = host.update(rows(1), skip="it was")
    assert (report.skipped, report.step, digest(host)) == ("it was", 1, before)


def test_error_in_the_training_thread_is_raised_by_update(spec, started):
    host = started(spec())
    with pytest.raises(ValueError, match="at least one row"):
        host.update([])
    with pytest.raises(ValueError, match="at least one row"):
        host.update(rows(1))
    assert not host.thread.is_alive()


def test_a_policy_that_cannot_be_loaded_is_reported_by_start(spec, started, tmp_path):
    with pytest.raises(OSError):
        started(replace(spec(), policy=tmp_path / "nothing"))


def test_trainer_ends_after_its_last_planned_step(spec, started):
    host = started(spec(planned_steps=1))
    assert host.update(rows(1)).step == 1
    with pytest.raises(TrainerDied):
        host.update(rows(2))


def test_stop_ends_a_blocked_thread(spec, started):
    host = started(spec())
    host.stop()
    assert not host.thread.is_alive()


def test_two_runs_in_one_process_do_not_affect_each_other(spec, started, tmp_path):
    plans = [
        spec(seed=1, output=tmp_path / "a"),
        spec(seed=2, micro_batch_rows=4, output=tmp_path / "b"),
    ]
    alone = []
    for plan in plans:
        host = started(plan)
        for step in range(1, 5):
            host.update(rows(step))
        alone.append(digest(host))
    together = [started(plan) for plan in plans]
    for step in range(1, 5):
        for host in together:
            host.update(rows(step))
    assert [digest(host) for host in together] == alone
