"""The weight version that an evaluation asks, found in its project."""

from typing import TYPE_CHECKING

from apps.accounts.locking import lock_first
from apps.accounts.models import Project
from apps.policies.models import Policy
from apps.runs.config import RunConfig

if TYPE_CHECKING:
    from apps.runs.models import WeightVersion


def version_of(project: Project, plan: RunConfig, policy: Policy | None) -> "tuple[WeightVersion | None, dict[str, str]]":
    """The version, and what is wrong by field. None without a problem: the policy's own weights, or no evaluation.

    Locks the row of its run: until the caller's transaction ends its trainer retires no folder (apps.runs.retiring).
    """
    asked = plan.evaluation
    if asked is None or not asked.run:
        return None, {}
    run = lock_first(project.runs.filter(slug=asked.run))
    if run is None:
        return None, {"evaluation.run": f"no run {asked.run!r} in project {project.slug!r}"}
    if policy and run.policy_id != policy.pk:
        return None, {"policy": f"is {policy.slug!r}, but {run.slug!r} trains {run.policy.slug!r}: name that one"}
    version = run.weight_versions.filter(version=asked.version).first()
    if version is None:
        newest = run.published_version
        return None, {"evaluation.version": f"run {run.slug!r} has no version {asked.version}; the newest is {newest}"}
    if why := why_not(version):
        return None, {"evaluation.version": why}
    return version, {}


def why_not(version: "WeightVersion") -> str:
    """Why a version cannot be evaluated any more, or yet; empty where it can."""
    if version.state == "retired":
        kept = version.run.settings.checkpoints.weights
        return (
            f"version {version.version} is retired and its folder deleted: {version.run.slug!r} keeps the newest {kept} "
            "(`checkpoints.weights`); take one of those"
        )
    if version.state != "published":
        return f"version {version.version} is {version.state}: only a published one is evaluated"
    return ""
