"""Folders of a run's weights and checkpoints, and the trainer's spec from its configuration."""

import shutil
from dataclasses import replace
from pathlib import Path

from django.conf import settings

from apps.accounts.locking import retrying
from apps.policies.models import Policy
from apps.runs import version_retirement
from apps.runs.models import NotPossible, Run, WeightVersion
from workers.trainer.plan import spec_from
from workers.trainer.spec import ReferenceModel, TrainerSpec


def training_folder(run: Run) -> Path:
    return settings.WEIGHTS_ROOT / f"run-{run.pk}"


def weights_folder(run: Run, version: int, fence: int) -> Path:
    """Return the folder of a weight version. Its name contains the fence.

    So a trainer that lost the run writes beside the next trainer's folder, never over it.
    """
    return training_folder(run) / f"v{version:06d}-f{fence}"


def remove_orphan_folders(run: Run) -> None:
    """Remove weight folders that no version needs.

    They are left over when a trainer dies between the rename and the commit, or while it retires
    versions.
    """
    needed = run.weight_versions.exclude(state=WeightVersion.State.RETIRED)
    folders = {Path(folder) for folder in needed.values_list("folder", flat=True)}
    for folder in training_folder(run).glob("v*-f*"):
        if folder not in folders:
            shutil.rmtree(folder, ignore_errors=True)


@retrying
def delete_retired_folders(run: Run, fence: int) -> None:
    """Delete the folders of published versions that are no longer needed.

    The database rows are changed first. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        retired = version_retirement.retire_versions(locked)
    for version in retired:
        shutil.rmtree(version.folder, ignore_errors=True)


def build_trainer_spec(run: Run) -> TrainerSpec:
    """Return the run's configuration as its trainer takes it.

    Raises NotPossible if it refers to weights that do not exist.
    """
    output = training_folder(run) / "checkpoints"
    plan = run.settings
    policy = run.policy
    spec = spec_from(
        plan,
        Path(policy.folder),
        output,
        run.planned_steps,
        find_reference_model(run),
        policy.context_tokens,
    )
    return replace(
        spec,
        threads=settings.TURN_THREADS if plan.takes_turns else None,
        ranks_here=settings.TRAINER_RANKS_HERE,
        rendezvous=settings.TRAINER_RENDEZVOUS,
    )


def find_reference_model(run: Run) -> ReferenceModel:
    """Return the run's reference model. Raises NotPossible if its weights do not exist."""
    reference = run.settings.algorithm.reference
    if reference.kind == "policy":
        policy = Policy.objects.filter(slug=reference.policy, project=run.project).first()
        if policy is None:
            raise NotPossible(
                f"algorithm.reference.policy: the project has no policy {reference.policy!r}"
            )
        return ReferenceModel("policy", Path(policy.folder))
    if reference.kind == "version" and reference.run:
        versions = WeightVersion.objects.filter(
            run__project=run.project, run__slug=reference.run, version=reference.version
        )
        version = versions.filter(state=WeightVersion.State.PUBLISHED).first()
        if version is None:
            raise NotPossible(
                f"algorithm.reference: run {reference.run!r} has no stored version "
                f"{reference.version}"
            )
        return ReferenceModel("version", Path(version.folder))
    if reference.kind == "average":
        return ReferenceModel("average", decay=reference.decay, every=reference.every)
    return ReferenceModel()  # version 0 is the base
