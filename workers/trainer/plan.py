"""Translate a run's configuration into the trainer's plain values, without a database."""

from pathlib import Path

import torch

from apps.policies.shape import shape_in
from apps.runs.algorithms.section import Section
from apps.runs.config import RunConfig
from apps.runs.memory import Sizes, rows_per_pass
from workers.trainer.spec import (
    Divergence,
    Experts,
    Lora,
    Loss,
    Objective,
    ReferenceModel,
    Schedule,
    TrainerSpec,
)

BASE = ReferenceModel()


def spec_from(
    plan: RunConfig,
    policy: Path,
    output: Path,
    planned_steps: int,
    reference: ReferenceModel = BASE,
    context_tokens: int = 0,
) -> TrainerSpec:
    """Return everything that the trainer of this run needs to know."""
    optimizer = plan.optimizer
    # 0 parameters: the estimate is that of the forward passes alone.
    sizes = Sizes(0, shape_in(policy), context_tokens)
    return TrainerSpec(
        policy=policy,
        output=output,
        planned_steps=planned_steps,
        rows_per_step=plan.rows_per_step,
        optimizer=optimizer.kind,
        learning_rate=optimizer.learning_rate,
        schedule=optimizer.schedule,
        warmup_steps=optimizer.warmup_within(planned_steps),
        betas=(optimizer.beta1, optimizer.beta2),
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.max_grad_norm,
        objective=build_objective(plan, reference),
        lora=Lora(plan.lora.rank, plan.lora.alpha, plan.lora.target_modules) if plan.lora else None,
        reset_every=plan.sync_interval if plan.algorithm.reset_optimizer else None,
        temperature=plan.sampling.temperature,
        max_completion_length=plan.sampling.max_tokens,
        seed=plan.seed,
        micro_batch_rows=rows_per_pass(plan, sizes, on_gpu=torch.cuda.is_available()),
        gradient_checkpointing=optimizer.gradient_checkpointing,
        keep_checkpoints=plan.checkpoints.keep,
        tower=plan.tower,
        precision=plan.precision.trainer,
        engine_precision=plan.precision.engine,
        processes=plan.trainer.processes,
        sharding=plan.trainer.sharding,
    )


def build_objective(plan: RunConfig, reference: ReferenceModel = BASE) -> Objective:
    """Return the objective of the run's steps, as names and plain numbers."""
    algorithm, kl = plan.algorithm, plan.algorithm.kl
    return Objective(
        loss=_loss_named(algorithm.loss),
        aggregation=algorithm.aggregation,
        kl=Divergence(kl.estimator, kl.coefficient, kl.where, kl.target, kl.horizon),
        reference=reference,
        entropy=algorithm.entropy.coefficient,
        experts=_experts_of(plan),
        teacher=_loss_named(algorithm.advantage) if algorithm.has_teacher else None,
    )


def _experts_of(plan: RunConfig) -> Experts:
    expert = plan.algorithm.expert
    if not expert.is_used:
        return Experts()
    return Experts(
        rows=plan.expert_rows_per_step,
        mu=expert.mu,
        loss=_loss_named(expert.loss),
        aggregation=expert.aggregation,
        schedule=Schedule(**expert.schedule.model_dump()) if expert.schedule else None,
    )


def _loss_named(section: Section) -> Loss:
    options = section.model_dump()
    return Loss(options.pop("name"), options)
