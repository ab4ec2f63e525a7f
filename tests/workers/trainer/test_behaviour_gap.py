"""The behaviour gap of an update, and the share of tokens that a loss drops because of it."""

import math
from dataclasses import replace

import pytest
import torch

from tests.workers.trainer.batches import rows
from workers.trainer.report import Recorder
from workers.trainer.spec import Loss, Objective


def test_p99_is_the_smallest_value_that_99_percent_do_not_exceed():
    recorder = Recorder()
    values = torch.arange(1.0, 251.0).view(5, 50)
    mask = torch.ones(5, 50)
    mask[4] = 0
    recorder.keep("gap", values[:2], mask[:2])
    recorder.keep("gap", values[2:], mask[2:])
    assert recorder.finish(1).metrics == {"gap_p99": 198.0}
    assert recorder.finish(2).metrics == {}


def test_p99_gap_does_not_depend_on_micro_batches(spec, started, tmp_path):
    batch = rows(1, tokens_of_tools=True)
    first, *rest = batch
    far = [value - 3.0 for value in first.behaviour_logprobs]
    batch = [replace(first, behaviour_logprobs=tuple(far)), *rest]
    found = [
        started(spec(micro_batch_rows=cut, output=tmp_path / str(cut))).update(batch).metrics
        for cut in (None, 4)
    ]
    assert found[0]["behaviour_gap_p99"] == pytest.approx(found[1]["behaviour_gap_p99"], abs=1e-5)
    assert found[0]["behaviour_gap_p99"] > 2 > found[0]["behaviour_gap"]


@pytest.mark.parametrize("correction", ["token_mask", "sequence_mask"])
def test_share_of_tokens_dropped_by_the_correction_is_reported(spec, started, correction):
    options = {"cap": math.e, "floor": 1 / math.e, "correction": correction}
    host = started(spec(objective=Objective(Loss("decoupled", options), "token-mean")))
    first, *rest = rows(1)
    far = replace(first, behaviour_logprobs=tuple(-30.0 for _ in first.behaviour_logprobs))
    metrics = host.update([far, *rest]).metrics
    tokens = sum(len(row.completion_ids) for row in (far, *rest))
    assert metrics["dropped_share"] >= len(far.completion_ids) / tokens
    assert math.isfinite(metrics["loss"])
