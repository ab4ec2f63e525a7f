"""What we rely on in the pinned TRL: the batch's keys and shapes, single updates, stored logprobs
as π_old, and equal losses.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
import trl
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from tests.workers.trainer import slow_loss
from tests.workers.trainer.batches import digest, experts, rows
from tests.workers.trainer.ranks.measuring import course_of, require_alike
from tests.workers.trainer.spying import spied
from workers.policies import recipes
from workers.policies.saving import save_base
from workers.trainer import forward, objective
from workers.trainer.buffer_grpo_trainer import build_loss_tokens
from workers.trainer.collate import Windows, collate
from workers.trainer.spec import Divergence, Experts, Loss, Objective

CONSUMED = {
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "advantages",
    "old_per_token_logps",
    "num_items_in_batch",
    "tool_mask",
}
PPO = Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": None})


def own_logprobs(host, row, temperature=1.0):
    values = slow_loss.logprobs(slow_loss.load(host.spec.policy), row, temperature)
    return replace(row, behaviour_logprobs=tuple(values.tolist()))


def test_pinned_trl_version_is_installed():
    assert trl.__version__.startswith("1.16.")


def test_loss_gets_the_given_batch_in_micro_batches(spec, started, monkeypatch):
    host = started(spec(micro_batch_rows=4))
    seen = []
    original = host.trainer.compute_loss
    monkeypatch.setattr(
        host.trainer,
        "compute_loss",
        lambda model, inputs, *args, **kwargs: (seen.append(inputs), original(model, inputs))[1],
    )
    batch = rows(1, tokens_of_tools=True)
    host.update(batch)
    assert len(seen) == 3
    prompt, completion = (
        max(len(getattr(row, ids)) for row in batch) for ids in ("prompt_ids", "completion_ids")
    )
    for inputs in seen:
        assert set(inputs) == CONSUMED
        assert inputs["prompt_ids"].shape == inputs["prompt_mask"].shape == (4, prompt)
        per_token = ("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps")
        assert {inputs[name].shape for name in per_token} == {(4, completion)}
        assert inputs["advantages"].shape == (4,)
        assert inputs["num_items_in_batch"].ndim == 0
        assert int(inputs["num_items_in_batch"]) == sum(sum(row.action_mask) for row in batch)


def test_one_update_of_a_one_layer_model_takes_less_than_five_cpu_seconds(spec, started):
    began = time.process_time()  # CPU time of this process only
    host = started(spec())
    before = digest(host)
    report = host.update(rows(1))
    assert report.step == 1 and digest(host) != before
    assert time.process_time() - began < 5


def test_stored_logprobs_are_used_as_pi_old(spec, started):
    host = started(spec())
    batch = [own_logprobs(host, row) for row in rows(1)]
    shifted = [
        replace(
            row, behaviour_logprobs=tuple(v - 0.1 for v in row.behaviour_logprobs), advantage=1.0
        )
        for row in batch
    ]
    report = host.update(shifted)
    assert report.metrics["behaviour_gap"] == pytest.approx(0.1, abs=1e-5)
    assert report.metrics["loss"] == pytest.approx(-torch.tensor(0.1).exp().item(), rel=1e-4)


def test_clipping_stops_the_gradient_of_a_too_large_ratio(spec, started):
    host = started(spec(max_grad_norm=1e9))
    far = [replace(own_logprobs(host, row), advantage=1.0) for row in rows(1)]
    far = [
        replace(row, behaviour_logprobs=tuple(v - 1.0 for v in row.behaviour_logprobs))
        for row in far
    ]
    spy = spied(host)
    report = host.update(far)
    assert report.metrics["clip_share"] == 1.0
    assert all(not gradient.any() for gradient in spy.gradient.values())


def test_logprobs_of_the_policy_itself_give_no_gap_and_no_clipping(spec, started):
    host = started(spec(temperature=0.7))
    report = host.update([own_logprobs(host, row, 0.7) for row in rows(1)])
    assert report.metrics["behaviour_gap"] < 1e-5
    assert report.metrics["behaviour_kl"] == pytest.approx(0, abs=1e-6)
    assert report.metrics["clip_share"] == 0.0


@pytest.mark.parametrize(
    "aggregation",
    ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"],
)
@pytest.mark.parametrize("micro, count", [(None, 12), (5, 12), (4, 11)])
def test_gradient_matches_the_slow_loss(spec, started, aggregation, micro, count):
    plan = spec(objective=Objective(PPO, aggregation), micro_batch_rows=micro, max_grad_norm=1e9)
    assert_same_gradient(started(plan), rows(1, count, tokens_of_tools=True))


@pytest.mark.parametrize("where", ["loss", "reward"])
def test_kl_gradient_matches_the_slow_loss(spec, started, where):
    plan = Objective(PPO, kl=Divergence("k3", 0.3, where))
    host = started(
        spec(
            objective=plan,
            max_grad_norm=1e9,
            learning_rate=1e-2,
            temperature=0.8,
            micro_batch_rows=5,
        )
    )
    host.update(rows(1))
    assert_same_gradient(host, rows(2))


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "token-mean"])
def test_gradient_of_mix_with_entropy_and_kl_matches_the_slow_loss(spec, started, aggregation):
    plan = Objective(
        PPO, entropy=0.1, kl=Divergence("k3", 0.2), experts=Experts(4, 0.3, aggregation=aggregation)
    )
    host = started(
        spec(
            objective=plan,
            rows_per_step=16,
            micro_batch_rows=3,
            max_grad_norm=1e9,
            learning_rate=1e-2,
        )
    )
    host.update([*rows(1), *experts(1)])
    assert_same_gradient(host, [*rows(2), *experts(2)])


def assert_same_gradient(host, batch):
    """Assert that the next update's gradient equals the float64 one for the current weights."""
    reference = slow_loss.load(host.spec.policy)
    model = slow_loss.load(host.spec.policy)
    model.load_state_dict(
        {name: tensor.double() for name, tensor in host.trainer.model.state_dict().items()}
    )
    slow_loss.loss(model, reference, batch, host.spec).backward()
    spy = spied(host)
    host.update(batch)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(
            spy.gradient[name].double(), parameter.grad, rtol=1e-3, atol=1e-6
        )


# TRL's settings of a loss → ours. Both compute the same number on a batch in one piece.
SAME = {
    "dapo": ({"loss_type": "dapo"}, PPO, "token-mean"),
    "grpo": ({"loss_type": "grpo"}, PPO, "seq-mean-token-mean"),
    "dr_grpo": ({"loss_type": "dr_grpo"}, PPO, "seq-mean-token-sum-norm"),
    "gspo": (
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon_low": 0.1,
            "epsilon_high": 0.1,
        },
        Loss("gspo", {"clip_low": 0.1, "clip_high": 0.1}),
        "seq-mean-token-mean",
    ),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.3},
        Loss("cispo", {"clip_low": 1.0, "clip_high": 0.3}),
        "token-mean",
    ),
    "sapo": ({"loss_type": "sapo"}, Loss("sapo"), "seq-mean-token-mean"),
}


@pytest.mark.parametrize("name", SAME)
def test_loss_matches_trl_where_trl_has_it(spec, started, name):
    settings, loss, aggregation = SAME[name]
    plan = spec(objective=Objective(loss, aggregation))
    trainer = started(plan).trainer
    batch = rows(1, tokens_of_tools=True)
    for field, value in {"epsilon_low": 0.2, "epsilon_high": 0.28, **settings}.items():
        setattr(trainer, field, value)
    trainer.current_gradient_accumulation_steps = 1
    inputs = collate(batch, trainer.processing_class.pad_token_id)
    theirs = gradient_of(trainer, trainer._compute_loss(trainer.model, inputs))
    ours = gradient_of(trainer, our_loss(trainer, inputs, batch))
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6)


def our_loss(trainer, inputs, batch):
    tokens = build_loss_tokens(inputs, *forward.score(trainer.model, inputs))
    windows = Windows.of(batch, trainer.spec.max_completion_length)
    return objective.share(trainer.spec.objective, tokens, windows, 0.0, 0.0).loss


def gradient_of(trainer, loss):
    trainer.model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in trainer.model.named_parameters()} | {
        "loss": loss.detach()
    }


@pytest.fixture
def mixture(tmp_path):
    """Create a tiny mixture of experts with a balancing loss."""
    recipe = recipes.find_recipe("sort")
    tokenizer = recipe.tokenizer()
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=32,
        num_experts=4,
        num_experts_per_tok=2,
        router_aux_loss_coef=0.5,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    torch.manual_seed(0)
    save_base(Qwen3MoeForCausalLM(config), tokenizer, tmp_path / "moe", "312")
    return tmp_path / "moe"


def test_two_processes_balance_a_mixture_of_experts_like_one(spec, hosted, in_two, mixture):
    """The rows differ only in their advantages, so each part has the same balance as all."""
    alike = [replace(rows(1)[0], advantage=row.advantage) for row in rows(2)]
    plan = replace(spec(objective=Objective(PPO)), policy=mixture)
    wanted = course_of(hosted(plan), [alike] * 3)
    assert wanted.reports[0].metrics["router_balance"] > 0
    require_alike(course_of(hosted(in_two(plan)), [alike] * 3), wanted)


def test_mixture_of_experts_is_balanced_as_in_trl(spec, started, mixture):
    host = started(replace(spec(objective=Objective(PPO), max_grad_norm=1e9), policy=mixture))
    trainer = host.trainer
    batch = rows(1)
    trainer.current_gradient_accumulation_steps = 1
    trainer.loss_type = "dapo"
    trainer.epsilon_low = 0.2
    trainer.epsilon_high = 0.28
    theirs = gradient_of(
        trainer,
        trainer._compute_loss(trainer.model, collate(batch, trainer.processing_class.pad_token_id)),
    )
    trainer.model.zero_grad()
    spy = spied(host)
    report = host.update(batch)
    assert report.metrics["router_balance"] > 0
    assert report.metrics["loss"] == pytest.approx(theirs.pop("loss").item(), rel=1e-4)
    for name, gradient in theirs.items():
        torch.testing.assert_close(spy.gradient[name], gradient, rtol=1e-3, atol=1e-6)


def test_trainer_imports_neither_vllm_nor_trackers():
    loaded = (
        "import sys, workers.trainer.buffer_grpo_trainer, workers.rater_heads.fitting;"
        " print(sorted({'trl', 'vllm', 'wandb', 'mlflow'} & set(sys.modules)))"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "rftweb.settings"}
    code = f"import django; django.setup(); {loaded}"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert found.stdout == "['trl']\n"
