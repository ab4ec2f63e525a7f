"""Promotion of a weight version to a policy, and branches that continue from it."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.accounts.models import User
from apps.policies.copying import copy_as_base
from apps.policies.models import Policy
from apps.policies.registering import register_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run, WeightVersion
from apps.runs.naming import MAX_SLUG_LENGTH, free_name
from apps.runs.parsing import parse_config

EVALUATES = "it is an evaluation: continue from the run that trained the weights"
REPLAYS = "it replays the data of another run: use “exclude and replay” on that run instead"


def version_source(version: WeightVersion) -> str:
    """Return the name by which a policy refers to the version that it comes from."""
    return f"{version.run.slug}@{version.version}"


def promoted(
    version: WeightVersion, by: User | None = None, slug: str = "", title: str = ""
) -> Policy:
    """Return the policy with these weights and this slug; create it if there is none.

    Without a slug, version 0 is the run's own policy. Raises NotCopied, DamagedWeights, and
    IntegrityError where another policy has the slug.
    """
    run = version.run
    if version.version == 0 and not slug:
        return run.policy
    source = version_source(version)
    existing = run.project.policies.filter(
        source=source, **({"slug": slug} if slug else {})
    ).first()
    if existing is not None and Path(existing.folder).is_dir():
        return existing
    slug = slug or free_name(name_of_policy(version), run.project.policies)
    folder = folder_of_policy(run, slug)
    sealed = copy_as_base(Path(version.folder), folder)
    title = title or f"{run.title}, version {version.version}"[:200]
    licence = run.policy.licence
    return register_policy(
        run.project, slug, folder, source, title, by, licence=licence, sealed=sealed
    )


def name_of_policy(version: WeightVersion) -> str:
    """Return the default name of a version's policy; the caller checks whether it is free."""
    return f"{version.run.slug[: MAX_SLUG_LENGTH - 8]}-v{version.version}"


def folder_of_policy(run: Run, slug: str) -> Path:
    return settings.WEIGHTS_ROOT / "policies" / f"{run.project.slug}-{slug}"


def why_no_branch(run: Run) -> str:
    """Return why no run can continue from a version of this one; "" if one can."""
    plan = run.settings
    return REPLAYS if plan.replay else EVALUATES if plan.evaluation else ""


def plan_of_branch(run: Run, policy: str, steps: int) -> RunConfig:
    """Return the run's configuration for further steps from this policy (slug).

    What its KL term measures against stays what it was: the base of the old run, not the version
    begun with. Raises ConfigError.
    """
    plan = run.settings.model_dump(mode="json")
    if run.settings.algorithm.reference.kind == "base" and policy != run.policy.slug:
        plan["algorithm"]["reference"] = {"kind": "policy", "policy": run.policy.slug}
    return parse_config({**plan, "policy": policy, "steps": steps})


@transaction.atomic
def branch(version: WeightVersion, policy: Policy, by: User | None, options: dict[str, Any]) -> Run:
    """Create a run that continues from a version.

    `options`: slug, title, steps, whether it starts and whether its parent stops now. Raises
    ConfigError, NotPossible, and IntegrityError if the slug is taken.
    """
    parent = version.run
    plan = plan_of_branch(parent, policy.slug, options["steps"])
    run = Run.create(
        project=parent.project, slug=options["slug"], title=options["title"], plan=plan, owner=by
    )
    Run.objects.filter(pk=run.pk).update(branched_from=version)
    parent.refresh_from_db()
    if options["stop_parent"] and parent.state not in Run.ENDED:
        parent.stop(by, reason=f"{run.slug} continues from its version {version.version}")
    if options["start"]:
        run.start(by)
    run.refresh_from_db()
    return run
