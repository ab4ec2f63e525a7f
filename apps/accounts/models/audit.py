"""The audit log."""

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import models
from django.db.models.functions import Now


class AuditEntry(models.Model):
    """An entry of the audit log: written in the action's own transaction, never changed."""

    at = models.DateTimeField(db_default=Now())
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="NULL for actions on the installation.",
    )
    name = models.CharField(
        max_length=150,
        blank=True,
        help_text="Name of the person at that time; kept after the account is deleted.",
    )
    action = models.CharField(max_length=60, help_text="Object and verb, for example `run paused`.")
    project = models.ForeignKey(
        "accounts.Project", null=True, on_delete=models.SET_NULL, related_name="audit_entries"
    )
    target = models.CharField(
        max_length=200,
        help_text="Name of the object, for example `run demo/tone`; kept after it is deleted.",
    )
    details = models.JSONField(
        default=dict, help_text="Values before and after, and reasons. Never secrets."
    )

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["project", "-id"], name="audit_of_a_project")]

    def __str__(self) -> str:
        return f"{self.name or 'rftweb'}: {self.action} {self.target}"

    @classmethod
    def record(
        cls,
        action: str,
        target: str,
        by: AbstractUser | AnonymousUser | None = None,
        project: models.Model | None = None,
        **details: object,
    ) -> "AuditEntry":
        """Write an action to the audit log.

        Call it inside the transaction that acts, so that both are committed or neither.
        """
        person = by if by is not None and by.is_authenticated else None
        return cls.objects.create(
            action=action,
            target=target[:200],
            by=person,
            name=person.username if person else "",
            project=project,
            details=details,
        )
