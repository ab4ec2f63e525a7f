"""Learning rates follow their schedule, after a restart too; weight decay; kinds of AdamW."""

import importlib.util
import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from apps.runs.optimizer import Optimizer
from tests.workers.trainer.batches import digest, rows
from tests.workers.trainer.feeding import train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step
from workers.policies.saving import save_base
from workers.trainer import checkpoint
from workers.trainer.optimizers import UnsupportedOptimizer
from workers.trainer.spec import Lora

RATE = 1e-3
STEPS = 8
WARMUP = 2
# Factors after warm-up by the share of updates made: constant, straight line, half a cosine.
FACTORS = {
    "constant": lambda gone: 1.0,
    "linear": lambda gone: 1 - gone,
    "cosine": lambda gone: (1 + math.cos(math.pi * gone)) / 2,
}


def expected_rates(schedule: str) -> list[float]:
    """Return the expected learning rate of each update of a run of STEPS updates."""
    rates = []
    for made in range(STEPS):
        gone = (made - WARMUP) / (STEPS - WARMUP)
        rates.append(RATE * (made / WARMUP if made < WARMUP else FACTORS[schedule](gone)))
    return rates


def rates_of(host, steps, **granted) -> list[float]:
    return [host.update(rows(step), **granted).metrics["learning_rate"] for step in steps]


@pytest.mark.parametrize("schedule", FACTORS)
def test_resumed_run_has_the_learning_rates_of_its_schedule(spec, started, tmp_path, schedule):
    plan = spec(planned_steps=STEPS, learning_rate=RATE, schedule=schedule, warmup_steps=WARMUP)
    whole = started(replace(plan, output=tmp_path / "whole"))
    assert rates_of(whole, range(1, STEPS + 1)) == pytest.approx(expected_rates(schedule))

    first = started(plan)
    before = rates_of(first, range(1, 4))
    before.append(first.update(rows(4), save=True).metrics["learning_rate"])
    first.stop()
    resumed = started(plan, checkpoint.checkpoint_folder(plan.output, 4))
    after = rates_of(resumed, range(5, STEPS + 1))
    assert before + after == pytest.approx(expected_rates(schedule))
    assert digest(resumed) == digest(whole)


def test_changed_learning_rate_follows_the_schedule(spec, started):
    plan = spec(planned_steps=STEPS, learning_rate=RATE, schedule="linear", warmup_steps=WARMUP)
    host = started(plan)
    rates_of(host, range(1, 5))
    halved = rates_of(host, range(5, STEPS + 1), knobs=replace(plan.knobs, learning_rate=RATE / 2))
    assert halved == pytest.approx([rate / 2 for rate in expected_rates("linear")[4:]])


def test_a_run_taken_over_by_another_trainer_keeps_its_schedule(tiny_run, new_loop, monkeypatch):
    optimizer = {"learning_rate": RATE, "schedule": "cosine", "warmup_share": 0.3}
    run = tiny_run(optimizer=optimizer)  # 6 updates, 2 of them warm-up
    kill_in_step(new_loop(), run, 4, "_stage", monkeypatch)
    train_to_the_end(new_loop(), run)
    metrics = run.metrics.filter(name="learning_rate").order_by("step")
    falling = [RATE * (1 + math.cos(math.pi * gone / 4)) / 2 for gone in range(4)]
    rates = list(metrics.values_list("value", flat=True))
    assert rates == pytest.approx([0, RATE / 2, *falling])


@pytest.mark.parametrize(
    ("share", "planned", "steps"),
    [(None, 1_000, 5), (0.0, 1_000, 0), (0.1, 30, 3), (0.07, 100, 7), (0.1, 31, 4), (0.01, 5, 1)],
)
def test_warmup_share_is_a_share_of_the_planned_updates(share, planned, steps):
    assert Optimizer(warmup_share=share).warmup_within(planned) == steps


@pytest.fixture
def biased(base, tmp_path):
    """Create a tiny model with biases in its attention."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    tokens = {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    model = Qwen2ForCausalLM(Qwen2Config(**size, **heads, **tokens))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)  # biases start at 0, which cannot decay
    save_base(model, tokenizer, tmp_path / "biased", "312")
    return tmp_path / "biased"


def test_weight_decay_does_not_change_norms_and_biases(spec, started, biased):
    host = started(replace(spec(weight_decay=0.5, learning_rate=0.1), policy=biased))
    before = {name: p.detach().clone() for name, p in host.trainer.model.named_parameters()}
    host.update([replace(row, advantage=0.0) for row in rows(1)])  # no gradient: only decay
    shrunk = {
        name: (p / before[name]).mean().item() for name, p in host.trainer.model.named_parameters()
    }
    kept = {name for name in shrunk if name.endswith("bias") or "norm" in name}
    assert {name for name in kept if "bias" in name} and {name for name in kept if "norm" in name}
    assert {name: shrunk[name] for name in kept} == dict.fromkeys(kept, 1.0)
    others = {name: shrink for name, shrink in shrunk.items() if name not in kept}
    assert others == pytest.approx(dict.fromkeys(others, 1 - 0.1 * 0.5))


@pytest.mark.parametrize("lora", [None, Lora(2, 4.0, ("q_proj",))])
def test_adamw_is_the_fused_version(spec, started, lora):
    assert started(spec(lora=lora)).trainer.optimizer.optimizer.defaults["fused"] is True


HAS_BITSANDBYTES = importlib.util.find_spec("bitsandbytes") is not None


@pytest.mark.skipif(HAS_BITSANDBYTES, reason="bitsandbytes is installed")
def test_adamw_8bit_without_bitsandbytes_is_refused_by_field(spec, started):
    with pytest.raises(
        UnsupportedOptimizer, match=r"optimizer\.kind: adamw_8bit requires .* use adamw"
    ):
        started(spec(optimizer="adamw_8bit"))


@pytest.mark.skipif(not HAS_BITSANDBYTES, reason="bitsandbytes is not installed")
def test_adamw_8bit_resumes_exactly(spec, started, tmp_path):
    plan = spec(optimizer="adamw_8bit", learning_rate=RATE)
    whole = started(replace(plan, output=tmp_path / "whole"))
    rates_of(whole, range(1, 5))
    first = started(plan)
    rates_of(first, [1])
    first.update(rows(2), save=True)
    first.stop()
    resumed = started(plan, checkpoint.checkpoint_folder(plan.output, 2))
    rates_of(resumed, [3, 4])
    assert digest(resumed) == digest(whole)
    moments = [state["state1"].dtype for state in resumed.trainer.optimizer.state.values()]
    assert torch.uint8 in moments
