"""Invitations into projects by link."""

import secrets
from datetime import timedelta

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.locking import lock_ids
from apps.accounts.models.audit import AuditEntry
from apps.accounts.models.digests import digest_of
from apps.accounts.models.people import Membership, Project, User
from apps.accounts.public_text import ReasonField

INVITATION_PREFIX = "rft_inv_"
MAX_INVITATION_USES = 500


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def usable(self) -> "InvitationQuerySet":
        """Return invitations that somebody can still accept."""
        return self.filter(revoked_at=None, expires_at__gt=Now(), uses__lt=F("max_uses"))

    def presented(self, secret: str) -> "Invitation | None":
        """Return the usable invitation with this secret, or None."""
        return self.usable().select_related("project").filter(digest=digest_of(secret)).first()


class Invitation(models.Model):
    """A link that gives whoever opens it a role in a project.

    The link's secret is shown once and stored as a sha256 digest.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=16, choices=Membership.Role.choices)
    note = models.CharField(max_length=100, blank=True, help_text="Who the link is meant for.")
    digest = models.CharField(max_length=64, unique=True)
    last_four = models.CharField(max_length=4)
    max_uses = models.PositiveSmallIntegerField(default=1)
    uses = models.PositiveSmallIntegerField(default=0)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="invitations"
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(uses__lte=F("max_uses")), name="invitation_within_its_uses"
            )
        ]

    def __str__(self) -> str:
        return f"invitation …{self.last_four}"

    @property
    def state(self) -> str:
        """Return `open`, or why nobody can accept the invitation any more."""
        if self.revoked_at:
            return "revoked"
        if self.uses >= self.max_uses:
            return "used"
        return "open" if self.expires_at > timezone.now() else "expired"

    @classmethod
    @transaction.atomic
    def create(
        cls,
        project: Project,
        role: str,
        lifetime: timedelta,
        by: User,
        max_uses: int = 1,
        note: str = "",
    ) -> tuple["Invitation", str]:
        """Create an invitation; return it and its secret, which is not stored."""
        secret = INVITATION_PREFIX + secrets.token_urlsafe(30)
        invitation = cls.objects.create(
            project=project,
            role=role,
            note=note,
            digest=digest_of(secret),
            last_four=secret[-4:],
            max_uses=max_uses,
            created_by=by,
            expires_at=timezone.now() + lifetime,
        )
        AuditEntry.record(
            "invitation created",
            str(invitation),
            by,
            project,
            role=role,
            uses=max_uses,
            until=invitation.expires_at.isoformat(),
        )
        return invitation, secret

    @transaction.atomic
    def revoke(self, by: User) -> None:
        """End the invitation and write the audit log; members who joined by it stay members."""
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])
        AuditEntry.record("invitation revoked", str(self), by, self.project, role=self.role)

    @transaction.atomic
    def accept(self, user: User) -> bool:
        """Give the user the invitation's role; return False if the user is a member already.

        A member's role stays as it is, and no use is counted. Raises InvitationEnded if somebody
        else took the last use, or the invitation was revoked or expired meanwhile.
        """
        if not lock_ids(Invitation.objects.usable().filter(pk=self.pk)):
            raise InvitationEnded("This invitation is no longer valid. Ask for a new one.")
        if Membership.objects.filter(project=self.project_id, user=user).exists():
            return False
        try:
            with transaction.atomic():
                AuditEntry.record(
                    "invitation accepted", str(self), user, self.project, role=self.role
                )
                Membership(project=self.project, user=user, role=self.role).give(self.created_by)
        except IntegrityError:  # the same person accepted another invitation just now
            return False
        Invitation.objects.filter(pk=self.pk).update(uses=F("uses") + 1)
        return True


class InvitationMail(models.Model):
    """The e-mail that brings an invitation's link to its address; a worker sends it.

    The link is encrypted, and deleted once it is sent.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        SENT = "sent", "sent"
        FAILED = "failed", "not sent"

    invitation = models.OneToOneField(Invitation, on_delete=models.CASCADE, related_name="mail")
    address = models.EmailField()
    sealed_link = models.TextField(blank=True, editable=False)
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it was not sent.")
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="due_invitations", condition=Q(state="waiting"))
        ]

    def __str__(self) -> str:
        return f"{self.invitation} to {self.address}"

    @transaction.atomic
    def send_again(self, by: User) -> bool:
        """Send a failed e-mail again; return False if it has not failed."""
        failed = InvitationMail.objects.filter(pk=self.pk, state=self.State.FAILED)
        if not failed.update(state=self.State.WAITING, attempts=0, due_at=Now(), reason=""):
            return False
        invitation = self.invitation
        AuditEntry.record("invitation sent again", str(invitation), by, invitation.project)
        return True


class InvitationEnded(Exception):
    """Raised for an invitation that is used up, revoked or expired."""
