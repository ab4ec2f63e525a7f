"""What we rely on in the pinned TRL: the batch's keys and shapes, one update, and whose logprobs π_old are."""

import time
from dataclasses import replace

import pytest
import torch
import trl
from transformers import TrainerCallback

from tests.workers.trainer import slow_loss
from tests.workers.trainer.batches import digest, rows
from workers.trainer.host import TrainerHost

CONSUMED = {
    "prompt_ids", "prompt_mask", "completion_ids", "completion_mask",
    "advantages", "old_per_token_logps", "num_items_in_batch", "tool_mask",
}  # fmt: skip


class Spy(TrainerCallback):
    """Keeps the gradient of the last update."""

    def __init__(self, host: TrainerHost) -> None:
        self.host, self.gradient = host, {}

    def on_pre_optimizer_step(self, *args: object, **kwargs: object) -> None:
        self.gradient = {n: p.grad.clone() for n, p in self.host.trainer.model.named_parameters() if p.grad is not None}


def spied(host: TrainerHost) -> Spy:
    spy = Spy(host)
    host.trainer.add_callback(spy)
    return spy


def own_logprobs(host, row, temperature=1.0):
    values = slow_loss.logprobs(slow_loss.load(host.spec.policy), row, temperature)
    return replace(row, behaviour_logprobs=tuple(values.tolist()))


def test_the_pinned_version_is_installed():
    assert trl.__version__.startswith("1.16.")


def test_the_loss_sees_the_batch_it_was_given(spec, started, monkeypatch):
    host = started(spec(micro_batch_rows=4))
    seen = []
    original = host.trainer._compute_loss
    monkeypatch.setattr(host.trainer, "_compute_loss", lambda model, inputs: (seen.append(inputs), original(model, inputs))[1])
    batch = rows(1, tokens_of_tools=True)
    host.grant(batch)
    assert len(seen) == 3
    prompt, completion = (max(len(getattr(row, ids)) for row in batch) for ids in ("prompt_ids", "completion_ids"))
    for inputs in seen:
        assert set(inputs) == CONSUMED
        assert inputs["prompt_ids"].shape == inputs["prompt_mask"].shape == (4, prompt)
        per_token = ("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps")
        assert {inputs[name].shape for name in per_token} == {(4, completion)}
        assert inputs["advantages"].shape == (4,)
        assert inputs["num_items_in_batch"].ndim == 0
        assert int(inputs["num_items_in_batch"]) == sum(sum(row.action_mask) for row in batch)


def test_one_update_of_a_one_layer_model_takes_less_than_five_seconds(spec, started):
    began = time.monotonic()
    host = started(spec())
    before = digest(host)
    report = host.grant(rows(1))
    assert report.step == 1 and digest(host) != before
    assert time.monotonic() - began < 5


def test_stored_logprobs_are_pi_old(spec, started):
    host = started(spec())
    batch = [own_logprobs(host, row) for row in rows(1)]
    shifted = [replace(row, behaviour_logprobs=tuple(v - 0.1 for v in row.behaviour_logprobs), advantage=1.0) for row in batch]
    report = host.grant(shifted)
    assert report.metrics["behaviour_gap"] == pytest.approx(0.1, abs=1e-5)
    assert report.metrics["loss"] == pytest.approx(-torch.tensor(0.1).exp().item(), rel=1e-4)


def test_clipping_stops_the_gradient_of_a_ratio_that_went_too_far(spec, started):
    host = started(spec(max_grad_norm=1e9))
    far = [replace(own_logprobs(host, row), advantage=1.0) for row in rows(1)]
    far = [replace(row, behaviour_logprobs=tuple(v - 1.0 for v in row.behaviour_logprobs)) for row in far]
    spy = spied(host)
    report = host.grant(far)
    assert report.metrics["clip_share"] == 1.0
    assert all(not gradient.any() for gradient in spy.gradient.values())


def test_logprobs_of_the_policy_itself_show_no_gap_and_no_clipping(spec, started):
    host = started(spec(temperature=0.7))
    report = host.grant([own_logprobs(host, row, 0.7) for row in rows(1)])
    assert report.metrics["behaviour_gap"] < 1e-5
    assert report.metrics["behaviour_kl"] == pytest.approx(0, abs=1e-6)
    assert report.metrics["clip_share"] == 0.0


# BNPO normalises by its micro-batch: how the batch is cut is part of its definition.
CUTS = [(loss, *cut) for loss in ("dapo", "grpo", "dr_grpo") for cut in ((None, 12), (5, 12), (4, 11))] + [("bnpo", None, 12)]


@pytest.mark.parametrize("loss_type, micro, count", CUTS)
def test_the_gradient_is_that_of_the_slow_loss(spec, started, loss_type, micro, count):
    plan = spec(loss_type=loss_type, micro_batch_rows=micro, max_grad_norm=1e9)
    assert_same_gradient(started(plan), rows(1, count, tokens_of_tools=True))


def test_the_divergence_from_the_base_policy_has_the_slow_gradient(spec, started):
    host = started(spec(beta=0.3, max_grad_norm=1e9, learning_rate=1e-2, temperature=0.8))
    host.grant(rows(1))
    assert_same_gradient(host, rows(2))


def assert_same_gradient(host, batch):
    """One more update's gradient against float64, from the host's weights of this moment."""
    reference = slow_loss.load(host.spec.policy)
    model = slow_loss.load(host.spec.policy)
    model.load_state_dict({name: tensor.double() for name, tensor in host.trainer.model.state_dict().items()})
    slow_loss.loss(model, reference, batch, host.spec).backward()
    spy = spied(host)
    host.grant(batch)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(spy.gradient[name].double(), parameter.grad, rtol=1e-3, atol=1e-6)
