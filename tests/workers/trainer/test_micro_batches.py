"""The gradient of an update does not depend on how its rows are split into forward passes."""

import pytest
import torch

from tests.workers.trainer.batches import experts, rows
from tests.workers.trainer.spying import spied
from workers.algorithms.aggregation import MODES
from workers.algorithms.losses import LOSSES
from workers.trainer import forward, objective
from workers.trainer.buffer_grpo_trainer import build_loss_tokens
from workers.trainer.collate import Windows, collate
from workers.trainer.host import TrainerHost
from workers.trainer.spec import Divergence, Experts, Loss, Objective, TrainerSpec

CUTS = (1, 2, 4)
TOLERANCE = 1e-5
PPO = Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28})
# Fewer usual rows than forward passes, plus expert rows: some passes have only one kind.
BATCH = [*rows(1, 5, tokens_of_tools=True), *experts(1, 3)]
WHOLE = {
    "MIX": Objective(PPO, experts=Experts(3, 0.3)),
    "MIX over tokens": Objective(
        PPO, "token-mean", experts=Experts(3, 0.3, aggregation="token-mean")
    ),
    "CHORD-φ": Objective(PPO, experts=Experts(3, 0.5, Loss("sft_phi"))),
    "everything": Objective(
        PPO,
        "seq-mean-token-mean",
        kl=Divergence("low_var", 0.2),
        entropy=0.1,
        experts=Experts(3, 0.3),
    ),
    "KL as reward": Objective(PPO, kl=Divergence("k1", 0.2, "reward"), experts=Experts(3, 0.3)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_gradient_of_an_update_does_not_depend_on_the_micro_batch_size(
    spec, started, tmp_path, name
):
    whole = gradient(started(plan(spec, tmp_path, WHOLE[name], None)))
    assert whole.norm() > 0
    for cut in CUTS:
        other = gradient(started(plan(spec, tmp_path, WHOLE[name], cut)))
        assert float((other - whole).norm() / whole.norm()) < TOLERANCE, f"{cut} rows a pass"


def plan(spec, tmp_path, what: Objective, cut: int | None):
    fields = {"rows_per_step": 8, "micro_batch_rows": cut, "output": tmp_path / str(cut)}
    return spec(objective=what, max_grad_norm=1e9, learning_rate=1e-2, **fields)


def gradient(host) -> torch.Tensor:
    """Return the gradient of the second update, when the policy differs from the reference."""
    host.update(rows(9, 8))
    spy = spied(host)
    host.update(BATCH)
    return spy.flat


@pytest.mark.parametrize("aggregation", MODES)
@pytest.mark.parametrize("loss", LOSSES)
def test_shares_of_each_loss_and_aggregation_sum_to_the_whole_gradient(trainer, loss, aggregation):
    what = Objective(Loss(loss), aggregation, experts=Experts(3, 0.3))
    whole = added(trainer, what, len(BATCH))
    assert whole.norm() > 0
    for cut in CUTS:
        other = added(trainer, what, cut)
        assert float((other - whole).norm() / whole.norm()) < TOLERANCE, f"{cut} rows a pass"


@pytest.fixture(scope="module")
def trainer(base, tmp_path_factory):
    """Start a trainer of the tiny policy, for its model with the fused head."""
    host = TrainerHost(
        TrainerSpec(base, tmp_path_factory.mktemp("checkpoints"), planned_steps=1, rows_per_step=8)
    )
    host.start()
    yield host.trainer
    host.stop()


def added(trainer, what: Objective, cut: int) -> torch.Tensor:
    """Return the gradient of the sum of all shares, computed `cut` rows at a time."""
    trainer.model.zero_grad()
    windows = Windows.of(BATCH, 9)
    for start in range(0, len(BATCH), cut):
        inputs = collate(BATCH[start : start + cut], trainer.processing_class.pad_token_id)
        tokens = build_loss_tokens(inputs, *forward.score(trainer.model, inputs))
        objective.share(what, tokens, windows, what.experts.mu, 0.0).loss.backward()
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters()])


def test_pass_without_expert_rows_has_zero_expert_loss(trainer):
    share = share_of(
        trainer, rows(1, 5), Objective(PPO, experts=Experts(3, 1.0)), [*rows(1, 5), *experts(1, 3)]
    )
    assert share.loss.item() == 0.0


def test_pass_without_usual_rows_has_zero_usual_loss(trainer):
    plan = Objective(PPO, entropy=0.5, experts=Experts(3, 0.0))
    assert share_of(trainer, experts(1, 3), plan, [*rows(1, 5), *experts(1, 3)]).loss.item() == 0.0


def test_update_with_only_expert_rows_lowers_their_nll(spec, started):
    host = started(spec(objective=Objective(PPO, experts=Experts(12, 1.0))))
    batch = experts(1, 12)
    first = [host.update(batch).metrics["expert_nll"] for _ in range(4)]
    assert first[-1] < first[0]


def share_of(trainer, some, plan: Objective, batch):
    inputs = collate(some, trainer.processing_class.pad_token_id)
    tokens = build_loss_tokens(inputs, *forward.score(trainer.model, inputs))
    return objective.share(plan, tokens, Windows.of(batch, 9), plan.experts.mu, 0.0)
