"""References of a plan that its project lacks: weights to measure against, and runs to replay."""

from apps.accounts.models import Project
from apps.policies.models import Policy
from apps.runs.config import RunConfig


def missing_reference(project: Project, plan: RunConfig) -> dict[str, str]:
    """Return the weights that the plan refers to and the project does not have, by field."""
    reference = plan.algorithm.reference
    if reference.policy and not project.policies.filter(slug=reference.policy).exists():
        return {
            "algorithm.reference.policy": (
                f"no policy {reference.policy!r} in project {project.slug!r}"
            )
        }
    if not reference.run:
        return {}
    run = project.runs.kept().filter(slug=reference.run).first()
    if run is None:
        return {"algorithm.reference.run": f"no run {reference.run!r} in project {project.slug!r}"}
    versions = run.weight_versions.filter(state="published").values_list("version", flat=True)
    if reference.version not in versions:
        kept_versions = ", ".join(map(str, sorted(versions)))
        return {
            "algorithm.reference.version": (
                f"run {run.slug!r} keeps no version {reference.version}; it keeps {kept_versions}"
            )
        }
    return {}


def missing_replay(project: Project, plan: RunConfig, policy: Policy | None) -> dict[str, str]:
    """Return what the plan's replay refers to and the project does not have, by field."""
    replay = plan.replay
    if replay is None:
        return {}
    run = project.runs.kept().filter(slug=replay.run).first()
    if run is None:
        return {"replay.run": f"no run {replay.run!r} in project {project.slug!r}"}
    if run.step < replay.last_step:
        return {
            "replay.last_step": (
                f"run {run.slug!r} is at step {run.step}; it has recorded nothing up to step "
                f"{replay.last_step}"
            )
        }
    version = run.weight_versions.filter(version=replay.version).first()
    if version is None:
        return {"replay.version": f"run {run.slug!r} has no version {replay.version}"}
    if version.step >= replay.last_step:
        return {
            "replay.version": (
                f"is version of step {version.step}, so there is nothing to replay up to step "
                f"{replay.last_step}"
            )
        }
    # A merged adapter has a fingerprint of its own.
    if policy and version.fingerprint != policy.fingerprint and policy.source != replay.weights:
        return {
            "policy": (
                f"{policy.slug!r} is not version {replay.version} of {run.slug!r}; replay it from"
                " that run's page"
            )
        }
    return {}
