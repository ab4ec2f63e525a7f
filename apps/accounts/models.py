"""Who asks: people, the projects they belong to, and the hashed tokens their programs carry."""

import hashlib
import hmac
import re
import secrets
from datetime import timedelta

from django.contrib.auth.models import AbstractUser
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

TOKEN_PREFIX = "rft_usr_"
TOKEN_LIFETIME = timedelta(days=90)
# Scopes that name what they are for, beside the plain ones of Token.Scope; `*` names all.
NAMED_SCOPES = {
    "env:write:<name>": re.compile(r"env:write:(\*|[a-z0-9][a-z0-9_-]{0,59})"),  # registers that environment and plays in it
    "env:play:<name>": re.compile(r"env:play:(\*|[a-z0-9][a-z0-9_-]{0,59})"),  # acts in that environment, in the policy's seat
    "agent:<run>": re.compile(r"agent:[1-9][0-9]{0,17}"),  # takes that run's policy for a model
}


class User(AbstractUser):
    """A person, or a labelled stand-in for one."""

    is_simulated = models.BooleanField(default=False, help_text="A program that rates; shown as such wherever it speaks.")
    rating_keys = models.JSONField(
        default=dict, blank=True, help_text="Keys of the rating page this person moved, by action (apps.accounts.rating_keys)."
    )
    tour_step = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,
        help_text="The step of the tour that this person takes next, where the demo's run is to be seen; 0: none.",
    )

    password_changed_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="API tokens issued before the last change of the password are not accepted.",
    )

    def __str__(self) -> str:
        return self.username

    def set_password(self, raw_password: str | None) -> None:
        """Set the password and end all API tokens issued until now.

        Somebody who changes a password may fear that it is known, and so may its tokens be. Django
        calls this as well to store a known password by a newer hash, but saves the hash alone then.
        """
        super().set_password(raw_password)
        self.password_changed_at = timezone.now()


class ProjectQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "ProjectQuerySet":
        """Projects the user belongs to; an administrator sees all."""
        if not user.is_authenticated:
            return self.none()
        return self if user.is_superuser else self.filter(memberships__user=user)

    def run_by(self, user: User) -> "ProjectQuerySet":
        """Projects in which the user may start, steer and stop runs."""
        if not user.is_authenticated or user.is_superuser:
            return self.visible_to(user)
        # One filter call: the role must be this user's own, not just anybody's in the project.
        return self.filter(memberships__user=user, memberships__role__in=Membership.MAY_STEER)


class Project(models.Model):
    """The wall between teams: every run, taskset and policy stands in one."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title


class Membership(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner"
        RESEARCHER = "researcher"
        RATER = "rater"
        VIEWER = "viewer"

    MAY_STEER = (Role.OWNER, Role.RESEARCHER)
    MAY_RATE = (Role.OWNER, Role.RESEARCHER, Role.RATER)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_role_per_project")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"

    @transaction.atomic
    def give(self, by: User | None = None) -> None:
        """Keep the role that it says, new or changed, and put it on record."""
        before = Membership.objects.filter(pk=self.pk).values_list("role", flat=True).first()
        self.save()
        changed = {"before": {"role": before}, "after": {"role": self.role}}
        AuditEntry.record("role changed" if before else "role given", f"user {self.user}", by, self.project, **changed)

    @transaction.atomic
    def take(self, by: User | None = None) -> None:
        """Take the role away: the person belongs to the project no more."""
        AuditEntry.record("role taken", f"user {self.user}", by, self.project, before={"role": self.role})
        self.delete()


class TokenQuerySet(models.QuerySet):
    def alive(self) -> "TokenQuerySet":
        """Return tokens that are neither revoked, expired nor older than the owner's password."""
        changed_at = F("user__password_changed_at")
        is_newer = Q(user__password_changed_at=None) | Q(created_at__gte=changed_at)
        return self.filter(is_newer, revoked_at=None, expires_at__gt=timezone.now())

    def presented(self, secret: str) -> "Token | None":
        """The live token with this secret, or None. Compared by digest, in constant time."""
        digest = digest_of(secret)
        token = self.select_related("user").alive().filter(digest=digest).first()
        if token is None or not token.user.is_active or not hmac.compare_digest(token.digest, digest):
            return None
        return token


class Token(models.Model):
    """A program's key: shown once, kept as a sha256 digest (160 random bits need no slow hash)."""

    class Scope(models.TextChoices):
        READ = "read", "read runs, rollouts and metrics"
        RATE = "rate", "post ratings"
        STEER = "steer", "start, pause, resume and stop runs"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    last_four = models.CharField(max_length=4)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = TokenQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.name} (…{self.last_four})"

    @classmethod
    @transaction.atomic
    def issue(
        cls, user: User, name: str, scopes: list[str], lifetime: timedelta = TOKEN_LIFETIME, by: User | None = None
    ) -> tuple["Token", str]:
        """A new token and its secret, which is never stored and cannot be shown again."""
        unknown = {scope for scope in scopes if not is_scope(scope)}
        if unknown:
            known = ", ".join([*cls.Scope.values, *NAMED_SCOPES])
            raise ValueError(f"scopes: {', '.join(sorted(unknown))} unknown; choose among {known}")
        secret = TOKEN_PREFIX + secrets.token_urlsafe(30)
        token = cls.objects.create(
            user=user,
            name=name,
            digest=digest_of(secret),
            last_four=secret[-4:],
            scopes=sorted(scopes),
            expires_at=timezone.now() + lifetime,
        )
        AuditEntry.record("token issued", f"token {token} of {user}", by, scopes=token.scopes, until=token.expires_at.isoformat())
        return token, secret

    @transaction.atomic
    def revoke(self, by: User | None = None) -> None:
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])
        AuditEntry.record("token revoked", f"token {self} of {self.user}", by, scopes=self.scopes)

    def may(self, family: str, name: str) -> bool:
        """Whether a scope of this family (such as `env:write`) names this, or all."""
        return not {f"{family}:{name}", f"{family}:*"}.isdisjoint(self.scopes)

    def may_any(self, family: str) -> bool:
        """Whether a scope of this family names anything."""
        return any(scope.startswith(f"{family}:") for scope in self.scopes)


class OnceRequest(models.Model):
    """A write that its sender has named, so that sending it again does nothing anew (apps.accounts.once)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="Of method, address and body.")
    begun_at = models.DateTimeField(db_default=Now())
    status = models.PositiveSmallIntegerField(null=True, help_text="Of the answer; empty while it is made.")
    answer = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_request_per_key")]
        indexes = [models.Index(fields=["begun_at"], name="old_requests")]

    def __str__(self) -> str:
        return self.key


class AuditEntry(models.Model):
    """Who did what, and when: written in the transaction of the act itself, and never changed."""

    at = models.DateTimeField(db_default=Now())
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", help_text="NULL: the installation itself.")
    name = models.CharField(max_length=150, blank=True, help_text="The person's name then; it outlives the account.")
    act = models.CharField(max_length=60, help_text="A verb and what it is done to: `run paused`.")
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="audit_entries")
    target = models.CharField(max_length=200, help_text="What it was done to, in words that outlive it: `run demo/tone`.")
    details = models.JSONField(default=dict, help_text="Before, after, and reasons; never a secret.")

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["project", "-id"], name="audit_of_a_project")]

    def __str__(self) -> str:
        return f"{self.name or 'rftweb'}: {self.act} {self.target}"

    @classmethod
    def record(
        cls, act: str, target: str, by: User | None = None, project: Project | None = None, **details: object
    ) -> "AuditEntry":
        """Put an act on record; call it inside the transaction that acts, so that neither is there without the other."""
        person = by if by is not None and by.is_authenticated else None
        return cls.objects.create(
            act=act, target=target[:200], by=person, name=person.username if person else "", project=project, details=details
        )


def is_scope(text: str) -> bool:
    return text in Token.Scope.values or any(shape.fullmatch(text) for shape in NAMED_SCOPES.values())


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
