"""Visibility of judgements about replies: others' ratings, machine rewards and weight versions.

A rater who knows what others or the machine said repeats their judgement instead of giving an
independent one. The one rule, for pages, REST and sockets: administrators, owners and researchers
see everything; a rater, and a viewer whom the run asks to rate, see nothing of it unless the run
sets `people.blind: false`; a viewer whom it does not ask may look.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import Q, QuerySet

from apps.accounts.models import Membership, Project, User
from apps.runs.models import Run
from apps.runs.raters import naming

# What an event tells a blind person; of kinds that are not here, that something happened.
TOLD = {"state_changed": ("state", "by"), "config_changed": ("by",), "step_committed": ("step",)}


def judged_openly(user: User) -> QuerySet[Run]:
    """Return the runs whose judgements this person may see."""
    runs = Run.objects.visible_to(user)
    if not user.is_authenticated or user.is_superuser:
        return runs
    steered = Q(project__in=Project.objects.run_by(user))
    looked_at = Project.objects.filter(
        memberships__user=user, memberships__role=Membership.Role.VIEWER
    )
    return runs.filter(
        steered
        | Q(config__people__blind=False)
        | (Q(project__in=looked_at) & ~Q(pk__in=naming(user).values("pk")))
    )


def sees_judgements(user: User, run: Run) -> bool:
    """Tell whether this person sees the judgements of this run. One query."""
    return user.is_superuser or judged_openly(user).filter(pk=run.pk).exists()


def open_among(user: User, runs: Iterable[int]) -> set[int]:
    """Return the ids of those of these runs whose judgements the user may see. One query."""
    return set(judged_openly(user).filter(pk__in=set(runs)).values_list("pk", flat=True))


def open_topics(user: User, topics: Iterable[int]) -> frozenset[int]:
    """Return the ids of those of these topics whose events the user receives in full.

    Sockets use it.
    """
    return frozenset(
        judged_openly(user).filter(topic__in=set(topics)).values_list("topic_id", flat=True)
    )


def blind_payload(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an event's payload that a blind rater may receive."""
    return {name: payload[name] for name in TOLD.get(kind, ()) if name in payload}
