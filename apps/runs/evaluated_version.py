"""The weight version that an evaluation asks, found in its project."""

from typing import Protocol

from apps.accounts.locking import lock_first
from apps.accounts.models import Project
from apps.policies.models import Policy
from apps.runs.config import RunConfig


class Weights(Protocol):
    """A row that says where weights are: a weight version or a policy."""

    @property
    def pk(self) -> int: ...
    @property
    def folder(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


def find_evaluated_version(
    project: Project, plan: RunConfig, policy: Policy | None
) -> tuple[Weights | None, dict[str, str]]:
    """Return the weight version, and problems by field.

    None without a problem: the policy's own weights, or no evaluation.

    Locks the row of its run: until the caller's transaction ends its trainer retires no folder
    (apps.runs.version_retirement).
    """
    evaluation = plan.evaluation
    if evaluation is None or not evaluation.run:
        return None, {}
    run = lock_first(project.runs.kept().filter(slug=evaluation.run))
    if run is None:
        return None, {"evaluation.run": f"no run {evaluation.run!r} in project {project.slug!r}"}
    if policy and run.policy_id != policy.pk:
        return None, {
            "policy": (
                f"is {policy.slug!r}, but {run.slug!r} trains {run.policy.slug!r}: use that one"
            )
        }
    version = run.weight_versions.filter(version=evaluation.version).first()
    if version is None:
        newest = run.published_version
        return None, {
            "evaluation.version": (
                f"run {run.slug!r} has no version {evaluation.version}; the newest is {newest}"
            )
        }
    if why := version.why_not_evaluated():
        return None, {"evaluation.version": why}
    return version, {}
