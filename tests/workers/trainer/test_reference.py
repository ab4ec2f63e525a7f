"""The reference model: which logprobs it gives, that it does not change the policy, and that it is
resumed exactly.
"""

from dataclasses import replace

import pytest
import torch

from tests.workers.trainer import slow_loss
from tests.workers.trainer.batches import digest, rows
from workers.policies.tiny import build_tiny
from workers.trainer import checkpoint, forward
from workers.trainer.collate import collate
from workers.trainer.spec import Divergence, Lora, Loss, Objective, ReferenceModel

PPO = Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28})
BASE = ReferenceModel()
LORA = Lora(rank=4, alpha=8, target_modules=("q_proj", "v_proj", "down_proj"))


def plan(reference: ReferenceModel = BASE, **kl) -> Objective:
    return Objective(
        PPO, kl=Divergence(**{"estimator": "k3", "coefficient": 0.1, **kl}), reference=reference
    )


def reference_logprobs(host, batch) -> torch.Tensor:
    trainer = host.trainer
    return trainer.reference.logprobs(
        trainer.model, collate(batch, trainer.processing_class.pad_token_id), rows=5
    )


def assert_are_of(found: torch.Tensor, model, batch) -> None:
    for row, own in zip(batch, found, strict=True):
        expected = slow_loss.logprobs(model, row, 1.0)
        torch.testing.assert_close(
            own[: len(row.completion_ids)].double(), expected, rtol=0, atol=1e-5
        )


@pytest.fixture
def trained(spec, started):
    """Return a function that starts a host and makes three updates."""

    def train(objective: Objective, **fields):
        host = started(spec(objective=objective, learning_rate=1e-2, **fields))
        for step in (1, 2, 3):
            host.update(rows(step))
        return host

    return train


@pytest.mark.parametrize("lora", [None, LORA])
def test_base_reference_does_not_change_while_the_policy_trains(trained, base, lora):
    host = trained(plan(), lora=lora)
    assert_are_of(reference_logprobs(host, rows(5)), slow_loss.load(base), rows(5))


@pytest.mark.parametrize("lora", [None, LORA])
def test_kl_is_zero_at_first_and_positive_later(spec, started, lora):
    host = started(spec(objective=plan(), learning_rate=1e-2, lora=lora))
    metrics = [host.update(rows(step)).metrics["kl"] for step in (1, 2, 3)]
    assert metrics[0] == pytest.approx(0, abs=1e-7)
    assert metrics[2] > 1e-4


@pytest.mark.parametrize("kind", ["base", "average"])
@pytest.mark.parametrize("lora", [None, LORA])
def test_reference_pass_does_not_change_the_policy(trained, kind, lora):
    host = trained(plan(ReferenceModel(kind)), lora=lora)
    before = digest(host)
    mode = host.trainer.model.training
    storage = {
        name: parameter.data_ptr() for name, parameter in host.trainer.model.named_parameters()
    }
    reference_logprobs(host, rows(5))
    assert (digest(host), host.trainer.model.training) == (before, mode)
    assert storage == {
        name: parameter.data_ptr() for name, parameter in host.trainer.model.named_parameters()
    }


def test_failed_reference_pass_restores_the_policys_weights(trained):
    host = trained(plan())
    before = digest(host)
    with pytest.raises(KeyError):
        host.trainer.reference.logprobs(host.trainer.model, {}, rows=5)
    assert digest(host) == before
    assert host.trainer.model.training


@pytest.mark.parametrize("lora", [None, LORA])
def test_published_version_can_be_the_reference(trained, tmp_path, lora):
    first = trained(plan(), lora=lora, output=tmp_path / "first")
    first.publish(tmp_path / "v1", 1, 0)
    wanted = [own.tolist() for own in policy_logprobs(first, rows(5))]
    host = trained(plan(ReferenceModel("version", tmp_path / "v1")), lora=lora)
    found = reference_logprobs(host, rows(5))
    for row, own, expected in zip(rows(5), found, wanted, strict=True):
        size = len(row.completion_ids)
        assert own[:size].tolist() == pytest.approx(expected[:size], abs=1e-5)


def policy_logprobs(host, batch) -> torch.Tensor:
    with torch.no_grad():
        return forward.score(
            host.trainer.model, collate(batch, host.trainer.processing_class.pad_token_id)
        )[0]


@pytest.mark.parametrize("lora", [None, LORA])
def test_another_policy_of_the_same_shape_can_be_the_reference(trained, tmp_path, lora):
    build_tiny(tmp_path / "teacher", seed=7)
    host = trained(plan(ReferenceModel("policy", tmp_path / "teacher")), lora=lora)
    assert_are_of(reference_logprobs(host, rows(5)), slow_loss.load(tmp_path / "teacher"), rows(5))


def test_a_policy_of_another_shape_is_refused(spec, started, tmp_path):
    build_tiny(tmp_path / "other", hidden=64)
    with pytest.raises(ValueError, match="the parameters of other differ"):
        started(spec(objective=plan(ReferenceModel("policy", tmp_path / "other"))))


def test_adapter_version_is_refused_as_reference_for_full_weights(trained, spec, started, tmp_path):
    trained(plan(), lora=LORA, output=tmp_path / "first").publish(tmp_path / "v1", 1, 0)
    with pytest.raises(ValueError, match="contains adapters"):
        started(spec(objective=plan(ReferenceModel("version", tmp_path / "v1"))))


@pytest.mark.parametrize("every, times", [(1, 4), (2, 2)])
def test_average_reference_follows_the_policy(spec, started, every, times):
    host = started(
        spec(objective=plan(ReferenceModel("average", decay=0.8, every=every)), learning_rate=1e-2)
    )
    name, parameter = next(iter(host.trainer.model.named_parameters()))
    wanted = parameter.detach().double().clone()
    moves = 0
    for step in (1, 2, 3, 4):
        host.update(rows(step))
        if step % every == 0:
            wanted = 0.8 * wanted + 0.2 * parameter.detach().double()
            moves = moves + 1
    assert moves == times
    torch.testing.assert_close(
        host.trainer.reference.lent[name].double(), wanted, rtol=1e-5, atol=1e-7
    )


RESUMED = {
    "average": (plan(ReferenceModel("average", decay=0.7)), {}),
    "average of adapters": (plan(ReferenceModel("average", decay=0.7)), {"lora": LORA}),
    "adaptive": (plan(target=1e-4, horizon=12.0), {}),
    "base of adapters": (plan(), {"lora": LORA}),
    "optimizer reset": (Objective(PPO), {"reset_every": 3}),
    "optimizer reset just after the checkpoint": (Objective(PPO), {"reset_every": 2}),
}


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_from_a_checkpoint_is_exact(spec, started, tmp_path, name):
    objective, fields = RESUMED[name]

    def make(folder):
        output = tmp_path / folder
        return spec(objective=objective, learning_rate=1e-2, output=output, **fields)

    straight = started(make("straight"))
    wanted = [straight.update(rows(step)).metrics for step in range(1, 7)]
    stopped = started(make("stopped"))
    for step in range(1, 5):
        stopped.update(rows(step), save=step == 4)
    stopped.stop()
    resumed = started(make("stopped"), checkpoint.checkpoint_folder(tmp_path / "stopped", 4))
    found = [resumed.update(rows(step)).metrics for step in (5, 6)]
    assert digest(resumed) == digest(straight)
    ignored = {"update_seconds"}
    for after, expected in zip(found, wanted[4:], strict=True):
        assert {k: v for k, v in after.items() if k not in ignored} == {
            k: v for k, v in expected.items() if k not in ignored
        }


def test_a_checkpoint_without_its_average_is_damaged(spec, started):
    objective = spec(objective=plan(ReferenceModel("average")))
    started(objective).update(rows(1), save=True)
    (checkpoint.checkpoint_folder(objective.output, 1) / "reference.safetensors").unlink()
    with pytest.raises(checkpoint.DamagedCheckpoint, match=r"reference\.safetensors is missing"):
        checkpoint.newest_intact(objective.output, max_step=1)


def test_adaptive_coefficient_grows_while_the_kl_is_above_target(spec, started):
    host = started(spec(objective=plan(target=1e-9, horizon=12.0), learning_rate=1e-2))
    coefficients = [host.update(rows(step)).metrics["kl_coefficient"] for step in (1, 2, 3, 4)]
    # 12 rows with a horizon of 12: the clipped error of ±20 % applies in full. The KL of the first
    # update is zero.
    assert coefficients == pytest.approx([0.1, 0.08, 0.096, 0.1152])


def test_skipped_update_with_nan_logprobs_keeps_the_coefficient_finite(spec, started):
    host = started(spec(objective=plan(target=1e-9, horizon=12.0)))
    broken = [
        replace(row, behaviour_logprobs=(float("nan"),) * len(row.completion_ids))
        for row in rows(1)
    ]
    assert host.update(broken).skipped
    assert host.trainer.coefficient.value == pytest.approx(
        0.08
    )  # the KL itself was finite, namely zero


def test_reset_optimizer_clears_its_state_at_each_version(spec, started):
    host = started(spec(reset_every=2))
    counts = []
    for step in range(1, 6):
        host.update(rows(step))
        counts.append({float(state["step"]) for state in host.trainer.optimizer.state.values()})
    assert counts == [{1.0}, {2.0}, {1.0}, {2.0}, {1.0}]


@pytest.mark.parametrize(
    "fields", [{"kind": "frozen"}, {"kind": "version"}, {"kind": "base", "folder": "somewhere"}]
)
def test_invalid_reference_fields_are_refused(fields):
    with pytest.raises(ValueError, match="reference"):
        ReferenceModel(**fields)
