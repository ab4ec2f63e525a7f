"""What a run's configuration means for its trainer: names and plain numbers, without a database."""

from pathlib import Path

from apps.runs.algorithms.section import Section
from apps.runs.config import RunConfig
from workers.trainer.spec import Divergence, Experts, Lora, Loss, Objective, ReferenceModel, Schedule, TrainerSpec

BASE = ReferenceModel()


def spec_from(plan: RunConfig, policy: Path, output: Path, planned_steps: int, reference: ReferenceModel = BASE) -> TrainerSpec:
    """Everything the trainer of such a run must know. `policy` is the base's folder, `output` takes the checkpoints."""
    optimizer = plan.optimizer
    return TrainerSpec(
        policy=policy,
        output=output,
        planned_steps=planned_steps,
        rows_per_step=plan.rows_per_step,
        learning_rate=optimizer.learning_rate,
        warmup_steps=optimizer.warmup_steps,
        betas=(optimizer.beta1, optimizer.beta2),
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.max_grad_norm,
        objective=objective_of(plan, reference),
        lora=Lora(plan.lora.rank, plan.lora.alpha, plan.lora.target_modules) if plan.lora else None,
        reset_every=plan.sync_interval if plan.algorithm.reset_optimizer else None,
        temperature=plan.sampling.temperature,
        max_completion_length=plan.sampling.max_tokens,
        seed=plan.seed,
        micro_batch_rows=optimizer.micro_batch_rows,
        keep_checkpoints=plan.checkpoints.keep,
        tower=plan.tower,
        precision=plan.precision.trainer,
        engine_precision=plan.precision.engine,
    )


def objective_of(plan: RunConfig, reference: ReferenceModel = BASE) -> Objective:
    """What an update minimises, in names and plain numbers."""
    algorithm, kl = plan.algorithm, plan.algorithm.kl
    return Objective(
        loss=_named(algorithm.loss),
        aggregation=algorithm.aggregation,
        kl=Divergence(kl.estimator, kl.coefficient, kl.where, kl.target, kl.horizon),
        reference=reference,
        entropy=algorithm.entropy.coefficient,
        experts=_experts_of(plan),
        teacher=_named(algorithm.advantage) if algorithm.has_teacher else None,
    )


def _experts_of(plan: RunConfig) -> Experts:
    expert = plan.algorithm.expert
    if not expert.is_used:
        return Experts()
    return Experts(
        rows=plan.expert_rows_per_step,
        mu=expert.mu,
        loss=_named(expert.loss),
        aggregation=expert.aggregation,
        schedule=Schedule(**expert.schedule.model_dump()) if expert.schedule else None,
    )


def _named(section: Section) -> Loss:
    return Loss(section.name, section.model_dump(exclude={"name"}))
