"""A trainer uses all cores for an update while its engine waits, and then releases them."""

import torch

from tests.workers.trainer.batches import rows
from workers.trainer import forward, weight_store


def threads_of_an_update(host, monkeypatch) -> set[int]:
    seen = set()
    scores = forward.scores

    def watched(*args, **kwargs):
        seen.add(torch.get_num_threads())
        return scores(*args, **kwargs)

    monkeypatch.setattr(forward, "scores", watched)
    host.update(rows(1))
    monkeypatch.undo()
    return seen


def test_update_uses_the_threads_of_its_spec(spec, started, monkeypatch):
    host = started(spec(threads=2))
    assert threads_of_an_update(host, monkeypatch) == {2}
    other = started(spec(output=host.spec.output / "other"))
    assert threads_of_an_update(other, monkeypatch) == {1}
    assert torch.get_num_threads() == 1


def test_trainer_that_takes_turns_with_its_engine_gets_all_cores(tiny_run, settings):
    settings.TURN_THREADS = 7
    synchronous = tiny_run(max_staleness=0)
    overlapping = tiny_run(max_staleness=1)
    assert weight_store.build_trainer_spec(synchronous).threads == 7
    assert weight_store.build_trainer_spec(overlapping).threads is None
