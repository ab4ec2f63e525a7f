"""Where a run's weights and checkpoints lie, and what its configuration means for its trainer."""

import shutil
from pathlib import Path

from django.conf import settings

from apps.runs import retiring
from apps.runs.models import Run, WeightVersion
from workers.trainer.spec import TrainerSpec


def folder_of(run: Run) -> Path:
    return settings.WEIGHTS_ROOT / f"run-{run.pk}"


def weights_folder(run: Run, version: int, fence: int) -> Path:
    """The fence is in the name: whoever lost the run writes beside its successor, never over it."""
    return folder_of(run) / f"v{version:06d}-f{fence}"


def sweep(run: Run) -> None:
    """Remove weight folders that no version needs: a trainer died between renaming and committing, or while retiring."""
    needed = run.weight_versions.exclude(state=WeightVersion.State.RETIRED)
    known = {Path(folder) for folder in needed.values_list("folder", flat=True)}
    for folder in folder_of(run).glob("v*-f*"):
        if folder not in known:
            shutil.rmtree(folder, ignore_errors=True)


def retire(run: Run, fence: int) -> None:
    """Delete the folders of published versions that nobody needs any more; their rows say so first. Raises StaleFence."""
    with run.fenced(fence) as locked:
        retired = retiring.retire(locked)
    for version in retired:
        shutil.rmtree(version.folder, ignore_errors=True)


def spec_of(run: Run) -> TrainerSpec:
    plan = run.settings
    return TrainerSpec(
        policy=Path(run.policy.folder),
        output=folder_of(run) / "checkpoints",
        planned_steps=run.planned_steps,
        rows_per_step=plan.rows_per_step,
        learning_rate=plan.optimizer.learning_rate,
        warmup_steps=plan.optimizer.warmup_steps,
        betas=(plan.optimizer.beta1, plan.optimizer.beta2),
        weight_decay=plan.optimizer.weight_decay,
        max_grad_norm=plan.optimizer.max_grad_norm,
        epsilon_low=plan.algorithm.epsilon_low,
        epsilon_high=plan.algorithm.epsilon_high,
        beta=plan.algorithm.beta,
        loss_type=plan.algorithm.loss,
        temperature=plan.sampling.temperature,
        max_completion_length=plan.sampling.max_tokens,
        seed=plan.seed,
        micro_batch_rows=plan.optimizer.micro_batch_rows,
        keep_checkpoints=plan.checkpoints.keep,
    )
