"""The breaker of an environment, closed by a person before its time."""

from django.db import transaction

from apps.accounts.models import AuditEntry, User
from apps.environments.models import Environment
from apps.streaming import bells


@transaction.atomic
def close_breaker(environment: Environment, by: User) -> bool:
    """Forget the failures in a row: runs open groups in it again at once. False when there was nothing to forget."""
    failed = Environment.objects.filter(pk=environment.pk, failures__gt=0)
    closed = failed.update(failures=0, open_until=None, open_reason="")
    if closed:
        AuditEntry.record("breaker closed", f"environment {environment.project.slug}/{environment.name}", by, environment.project)
    transaction.on_commit(lambda: bells.ring("explore"), robust=True)
    return bool(closed)
