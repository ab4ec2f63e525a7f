"""Use of a model by runs, and deletion of a model that nothing uses."""

from django.db import transaction
from django.db.models import ProtectedError, QuerySet

from apps.accounts.locking import lock_one
from apps.accounts.models import AuditEntry, User
from apps.policies.models import Policy, PolicyRemoval
from apps.runs.models import ExportJob, Run, WeightVersion
from apps.runs.promoting import version_source


class ModelInUse(ValueError):
    """Raised for a model that cannot be deleted; the message names what uses it."""


def runs_with(policy: Policy) -> QuerySet[Run]:
    """Return the runs and evaluations that begin with the model, the newest first."""
    return policy.runs.order_by("-pk")


def runs_referring_to(policy: Policy) -> QuerySet[Run]:
    """Return other runs that measure against the model, as reference model or teacher."""
    referring = Run.objects.filter(
        project=policy.project_id, config__algorithm__reference__policy=policy.slug
    )
    return referring.exclude(policy=policy).order_by("-pk")


def find_parent_version(policy: Policy) -> WeightVersion | None:
    """Return the weight version that the model was made from, if it was made from one."""
    run, _, version = policy.source.rpartition("@")
    if not run or not version.isdecimal() or len(version) > 9:
        return None
    versions = WeightVersion.objects.select_related("run__project")
    parent = versions.filter(
        run__project=policy.project_id, run__slug=run, version=int(version)
    ).first()
    return parent if parent and version_source(parent) == policy.source else None


def why_not_deleted(policy: Policy) -> str:
    """Return a sentence on what uses the model; empty if it can be deleted."""
    users = list(runs_with(policy)[:1]) or list(runs_referring_to(policy)[:1])
    if not users:
        return _why_awaited(policy)
    count = runs_with(policy).count() + runs_referring_to(policy).count()
    uses = f"the run {users[0].slug} uses it, and needs it"
    if count > 1:
        uses = f"the run {users[0].slug} and {count - 1} more use it, and need it"
    return f"{policy.slug} cannot be deleted: {uses} as weight version 0 or as a reference."


def _why_awaited(policy: Policy) -> str:
    """Return a sentence on an export job that is making a run of the model, if there is one."""
    orders = ExportJob.objects.open().filter(
        weight_version__run__project=policy.project_id, options__slug=policy.slug
    )
    return f"{policy.slug} cannot be deleted: an export job is making it now." if orders else ""


@transaction.atomic
def delete_model(policy: Policy, by: User | None) -> PolicyRemoval:
    """Delete a model that nothing uses; a worker removes its files. Raises ModelInUse."""
    model = lock_one(Policy.objects.filter(pk=policy.pk).select_related("project"))
    if why := why_not_deleted(model):
        raise ModelInUse(why)
    removal = PolicyRemoval.objects.create(
        project=model.project, by=by, slug=model.slug, folder=model.folder
    )
    address = f"model {model.project.slug}/{model.slug}"
    AuditEntry.record("model deleted", address, by, model.project, source=model.source)
    try:
        with transaction.atomic():
            model.delete()
    except ProtectedError as error:  # a run began with it meanwhile
        raise ModelInUse(f"{model.slug} cannot be deleted: a run uses it now.") from error
    return removal
