"""Who may rate a run's rollouts: everybody of its project with that role, or those whom the run names."""

from django.db.models import Q, QuerySet

from apps.accounts.models import Membership, User
from apps.runs.models import Run

NOBODY_NAMED = Q(config__people__raters__people__isnull=True) | Q(
    config__people__raters__people=[], config__people__raters__groups=[]
)


def naming(user: User) -> QuerySet[Run]:
    """Runs that name this person, or a group of theirs, among their raters."""
    named = Q(config__people__raters__people__contains=[user.username])
    groups = list(user.groups.values_list("name", flat=True))
    return Run.objects.filter(named | Q(config__people__raters__groups__has_any_keys=groups) if groups else named)


def rated_by(user: User) -> QuerySet[Run]:
    """Runs whose rollouts this person may rate. The same rule as a claim's (apps.feedback.claiming)."""
    may = Q() if user.is_superuser else Q(project__memberships__user=user, project__memberships__role__in=Membership.MAY_RATE)
    return Run.objects.filter(may).filter(NOBODY_NAMED | Q(pk__in=naming(user).values("pk")))


def takes_open_stars(run: str = "") -> Q:
    """Match runs that take stars without a claim; `run`: the lookup that leads to it, such as "run__".

    A run that began before there was this choice has no such key, and takes them.
    """
    key = f"{run}config__people__open_stars"
    return Q(**{f"{key}__isnull": True}) | Q(**{key: True})
