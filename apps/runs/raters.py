"""People who may rate a run's rollouts: the raters of its project, or those whom the run names."""

from django.db.models import Q, QuerySet

from apps.accounts.models import Membership, RaterGroup, User
from apps.runs.models import Run

NOBODY_NAMED = Q(config__people__raters__people__isnull=True) | Q(
    config__people__raters__people=[], config__people__raters__groups=[]
)


def naming(user: User) -> QuerySet[Run]:
    """Return runs that name this person, or a group of theirs, among their raters."""
    names_user = Q(config__people__raters__people__contains=[user.username])
    for project, group in user.rater_groups.values_list("project", "name"):
        names_user |= Q(project=project, config__people__raters__groups__contains=[group])
    return Run.objects.filter(names_user)


def rated_by(user: User) -> QuerySet[Run]:
    """Return runs whose rollouts this person may rate.

    The same rule as a claim's (apps.feedback.claiming).
    """
    may = (
        Q()
        if user.is_superuser
        else Q(project__memberships__user=user, project__memberships__role__in=Membership.MAY_RATE)
    )
    runs = Run.objects.filter(project__deleting_since=None)
    return runs.filter(may).filter(NOBODY_NAMED | Q(pk__in=naming(user).values("pk")))


def takes_open_stars(run: str = "") -> Q:
    """Match runs that take stars without a claim; `run`: the lookup that leads to it, such as
    "run__".

    A run that began before there was this choice has no such key, and takes them.
    """
    key = f"{run}config__people__open_stars"
    return Q(**{f"{key}__isnull": True}) | Q(**{key: True})


def closed_domains(user: User, among: QuerySet[Run]) -> Q:
    """Match rollouts of these runs whose domain the run gives to groups without this person.

    The same rule as a claim's (apps.feedback.claiming).
    """
    restricted_runs = list(
        among.filter(config__people__raters__domain_groups__0__isnull=False)
        .only("project_id", "config")
        .distinct()
    )
    closed = Q(pk__in=())
    if not restricted_runs:
        return closed
    own_groups = set(user.rater_groups.values_list("project", "name"))
    for run in restricted_runs:
        for domain, groups in _by_domain(run).items():
            if own_groups.isdisjoint((run.project_id, group) for group in groups):
                closed |= Q(run=run.pk, group__task__domain=domain)
    return closed


def runs_given_to(group: RaterGroup) -> list[Run]:
    """Return the runs, not ended, that name this group among their raters."""
    alive = Run.objects.filter(project=group.project_id).exclude(state__in=Run.ENDED)
    return [
        run
        for run in alive.order_by("slug")
        if group.name in run.settings.people.raters.groups
        or any(group.name in names for names in _by_domain(run).values())
    ]


def _by_domain(run: Run) -> dict[str, list[str]]:
    return run.settings.people.raters.groups_by_domain()
