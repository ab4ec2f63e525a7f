"""The circuit breaker of an environment, reset by a person."""

from django.db import transaction

from apps.accounts.models import AuditEntry, User
from apps.environments.models import Environment
from apps.streaming import worker_notifications


@transaction.atomic
def close_breaker(environment: Environment, by: User) -> bool:
    """Reset the count of consecutive failures, so that runs open groups in the environment again.

    Returns False when there was nothing to reset.
    """
    failed = Environment.objects.filter(pk=environment.pk, failures__gt=0)
    closed = failed.update(failures=0, open_until=None, open_reason="")
    if closed:
        AuditEntry.record(
            "breaker closed",
            f"environment {environment.project.slug}/{environment.name}",
            by,
            environment.project,
        )
    transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)
    return bool(closed)
