"""A weight version as a policy of its project, and a run that begins with it as a branch of the one that made it."""

from pathlib import Path

from django.conf import settings
from django.db import transaction

from apps.accounts.models import User
from apps.policies.copying import copy_as_base
from apps.policies.models import Policy
from apps.policies.registering import register
from apps.runs.config import RunConfig, parse
from apps.runs.models import Run, WeightVersion
from apps.runs.naming import LONGEST_SLUG, free_name

EVALUATES = "it asks weights and learns nothing: go on from the run that made them"
REPLAYS = "it learns again from what another run has recorded: exclude and replay that run instead"


def source_of(version: WeightVersion) -> str:
    """How policies name a version that they come from."""
    return f"{version.run.slug}@{version.version}"


def promoted(version: WeightVersion, by: User | None = None, slug: str = "", title: str = "") -> Policy:
    """The policy that these weights are; made where there is none yet, or none of this slug. Version 0 is the run's policy.

    Raises NotCopied, DamagedWeights, and IntegrityError where another policy has the slug.
    """
    run = version.run
    if version.version == 0 and not slug:
        return run.policy
    source = source_of(version)
    known = run.project.policies.filter(source=source, **({"slug": slug} if slug else {})).first()
    if known is not None and Path(known.folder).is_dir():
        return known
    slug = slug or free_name(name_of_policy(version), run.project.policies)
    folder = folder_of_policy(run, slug)
    sealed = copy_as_base(Path(version.folder), folder)
    title = title or f"{run.title}, version {version.version}"[:200]
    licence = run.policy.licence
    return register(run.project, slug, folder, source, title, by, licence=licence, sealed=sealed)


def name_of_policy(version: WeightVersion) -> str:
    """Under which a version becomes a policy where nobody says a name, if that is free."""
    return f"{version.run.slug[: LONGEST_SLUG - 8]}-v{version.version}"


def folder_of_policy(run: Run, slug: str) -> Path:
    return settings.WEIGHTS_ROOT / "policies" / f"{run.project.slug}-{slug}"


def why_no_branch(run: Run) -> str:
    """Why no run can go on from a version of this one under its configuration; empty where one can."""
    plan = run.settings
    return REPLAYS if plan.replay else EVALUATES if plan.evaluation else ""


def plan_of_branch(run: Run, policy: str, steps: int) -> RunConfig:
    """The run's configuration for so many more steps from this policy (slug).

    What its KL term measures against stays what it was: the base of the old run, not the version begun with. Raises ConfigError.
    """
    plan = run.settings.model_dump(mode="json")
    if run.settings.algorithm.reference.kind == "base" and policy != run.policy.slug:
        plan["algorithm"]["reference"] = {"kind": "policy", "policy": run.policy.slug}
    return parse({**plan, "policy": policy, "steps": steps})


@transaction.atomic
def branch(version: WeightVersion, policy: Policy, by: User | None, wanted: dict) -> Run:
    """The new run, `wanted`: slug, title, steps, whether it starts and whether its parent stops now.

    Raises ConfigError, NotPossible, and IntegrityError where the slug is taken.
    """
    parent = version.run
    plan = plan_of_branch(parent, policy.slug, wanted["steps"])
    run = Run.create(project=parent.project, slug=wanted["slug"], title=wanted["title"], plan=plan, owner=by)
    Run.objects.filter(pk=run.pk).update(branched_from=version)
    parent.refresh_from_db()
    if wanted["stop_parent"] and parent.state not in Run.ENDED:
        parent.stop(by, reason=f"{run.slug} goes on from its version {version.version}")
    if wanted["start"]:
        run.start(by)
    run.refresh_from_db()
    return run
