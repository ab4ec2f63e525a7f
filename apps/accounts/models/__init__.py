"""Users, projects with their members, invitations, hashed API tokens and the audit log."""

from apps.accounts.models.audit import AuditEntry
from apps.accounts.models.digests import digest_of
from apps.accounts.models.invitations import (
    INVITATION_PREFIX,
    MAX_INVITATION_USES,
    Invitation,
    InvitationEnded,
    InvitationMail,
)
from apps.accounts.models.people import LastOwner, Membership, NoMember, Project, RaterGroup, User
from apps.accounts.models.tokens import (
    NAMED_SCOPES,
    TOKEN_LIFETIME,
    TOKEN_PREFIX,
    OnceRequest,
    Token,
    is_scope,
)

__all__ = [
    "INVITATION_PREFIX",
    "MAX_INVITATION_USES",
    "NAMED_SCOPES",
    "TOKEN_LIFETIME",
    "TOKEN_PREFIX",
    "AuditEntry",
    "Invitation",
    "InvitationEnded",
    "InvitationMail",
    "LastOwner",
    "Membership",
    "NoMember",
    "OnceRequest",
    "Project",
    "RaterGroup",
    "Token",
    "User",
    "digest_of",
    "is_scope",
]
