"""Where a run's weights and checkpoints lie, and what its configuration means for its trainer."""

import shutil
from dataclasses import replace
from pathlib import Path

from django.conf import settings

from apps.accounts.locking import retrying
from apps.policies.models import Policy
from apps.runs import retiring
from apps.runs.models import NotPossible, Run, WeightVersion
from workers.trainer.plan import spec_from
from workers.trainer.spec import ReferenceModel, TrainerSpec


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


@retrying
def retire(run: Run, fence: int) -> None:
    """Delete the folders of published versions that nobody needs any more; their rows say so first. Raises StaleFence."""
    with run.fenced(fence) as locked:
        retired = retiring.retire(locked)
    for version in retired:
        shutil.rmtree(version.folder, ignore_errors=True)


def spec_of(run: Run) -> TrainerSpec:
    """The run's configuration as its trainer takes it. Raises NotPossible when it refers to weights that are not there."""
    output = folder_of(run) / "checkpoints"
    plan = run.settings
    spec = spec_from(plan, Path(run.policy.folder), output, run.planned_steps, reference_of(run))
    return replace(spec, threads=settings.TURN_THREADS if plan.takes_turns else None)


def reference_of(run: Run) -> ReferenceModel:
    """The run's reference model. Raises NotPossible when its weights are not there."""
    reference = run.settings.algorithm.reference
    if reference.kind == "policy":
        policy = Policy.objects.filter(slug=reference.policy, project=run.project).first()
        if policy is None:
            raise NotPossible(f"algorithm.reference.policy: the project has no policy {reference.policy!r}")
        return ReferenceModel("policy", Path(policy.folder))
    if reference.kind == "version" and reference.run:
        known = WeightVersion.objects.filter(run__project=run.project, run__slug=reference.run, version=reference.version)
        version = known.filter(state=WeightVersion.State.PUBLISHED).first()
        if version is None:
            raise NotPossible(
                f"algorithm.reference: run {reference.run!r} has no published version {reference.version} that still has its folder"
            )
        return ReferenceModel("version", Path(version.folder))
    if reference.kind == "average":
        return ReferenceModel("average", decay=reference.decay, every=reference.every)
    return ReferenceModel()  # version 0 is the base
