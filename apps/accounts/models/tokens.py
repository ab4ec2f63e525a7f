"""API tokens, and requests that take effect only once."""

import hmac
import re
import secrets
from datetime import timedelta

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.models.audit import AuditEntry
from apps.accounts.models.digests import digest_of
from apps.accounts.models.people import User

TOKEN_PREFIX = "rft_usr_"
TOKEN_LIFETIME = timedelta(days=90)
# Scopes that name an object, in addition to the plain ones of Token.Scope; `*` covers all.
NAMED_SCOPES = {
    "env:write:<name>": re.compile(
        r"env:write:(\*|[a-z0-9][a-z0-9_-]{0,59})"
    ),  # registers that environment and plays in it
    "env:play:<name>": re.compile(
        r"env:play:(\*|[a-z0-9][a-z0-9_-]{0,59})"
    ),  # acts in that environment in place of the policy
    "agent:<run>": re.compile(r"agent:[1-9][0-9]{0,17}"),  # uses that run's policy as a model
}


class TokenQuerySet(models.QuerySet["Token"]):
    def alive(self) -> "TokenQuerySet":
        """Return tokens that are neither revoked, expired nor older than the owner's password."""
        changed_at = F("user__password_changed_at")
        is_newer = Q(user__password_changed_at=None) | Q(created_at__gte=changed_at)
        return self.filter(is_newer, revoked_at=None, expires_at__gt=Now())

    def presented(self, secret: str) -> "Token | None":
        """Return the valid token with this secret, or None.

        Digests are compared, in constant time.
        """
        digest = digest_of(secret)
        for token in _alive(digest):
            if token.user.is_active and hmac.compare_digest(token.digest, digest):
                return token
        return None


class Token(models.Model):
    """An API token: shown once, stored as a sha256 digest (160 random bits need no slow hash)."""

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
        cls,
        user: User,
        name: str,
        scopes: list[str],
        lifetime: timedelta = TOKEN_LIFETIME,
        by: User | None = None,
    ) -> tuple["Token", str]:
        """Create a token; return it and its secret, which is not stored and is shown only once."""
        unknown = {scope for scope in scopes if not is_scope(scope)}
        if unknown:
            choices = ", ".join([*cls.Scope.values, *NAMED_SCOPES])
            raise ValueError(f"scopes: {', '.join(sorted(unknown))} unknown; choose from {choices}")
        secret = TOKEN_PREFIX + secrets.token_urlsafe(30)
        token = cls.objects.create(
            user=user,
            name=name,
            digest=digest_of(secret),
            last_four=secret[-4:],
            scopes=sorted(scopes),
            expires_at=timezone.now() + lifetime,
        )
        AuditEntry.record(
            "token issued",
            f"token {token} of {user}",
            by,
            scopes=token.scopes,
            until=token.expires_at.isoformat(),
        )
        return token, secret

    @transaction.atomic
    def revoke(self, by: User | None = None) -> None:
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])
        AuditEntry.record("token revoked", f"token {self} of {self.user}", by, scopes=self.scopes)

    def may(self, family: str, name: str) -> bool:
        """Tell whether a scope of this family (such as `env:write`) covers this name."""
        return not {f"{family}:{name}", f"{family}:*"}.isdisjoint(self.scopes)

    def may_any(self, family: str) -> bool:
        """Tell whether the token has any scope of this family."""
        return any(scope.startswith(f"{family}:") for scope in self.scopes)


class OnceRequest(models.Model):
    """A write that its sender named with a key, so that a repeat does nothing.

    See apps.accounts.idempotency.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="Digest of method, URL and body.")
    begun_at = models.DateTimeField(db_default=Now())
    status = models.PositiveSmallIntegerField(
        null=True, help_text="Status of the response; NULL until there is one."
    )
    answer = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_request_per_key")]
        indexes = [models.Index(fields=["begun_at"], name="old_requests")]

    def __str__(self) -> str:
        return self.key


def is_scope(text: str) -> bool:
    return text in Token.Scope.values or any(
        shape.fullmatch(text) for shape in NAMED_SCOPES.values()
    )


@compiled_query
def _alive(digest: str) -> models.QuerySet[Token]:
    return Token.objects.alive().select_related("user").filter(digest=digest)
