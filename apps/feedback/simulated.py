"""The simulated rater: a labelled account that judges by the run's own rule, with a person's noise.

It keeps a demo moving when nobody rates. It leaves people their time first, takes only what a group
still wants, and stops at once when the run's switch `people.simulated` is off. What it says goes
through the public rating endpoint (`manage.py simulated_rater`), like anybody's word.
"""

import random
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from apps.accounts.models import Membership, Project, Token, User
from apps.feedback.models import STARS, Rating, Slot
from apps.rewards import scorers
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

USERNAME, DISPLAY_NAME = "simulated-rater", "Simulated rater"
TOKEN_NAME = "simulated rater process"
SLIP = 0.25  # chance of one star too many or too few
MOST_AT_ONCE = 500  # what the endpoint takes in one request
ACTIVE_S = 30.0  # a person who rated this recently is still there
RULE_WITHOUT_SCORER = "tone"
# The same rollout always gets the same id and the same slip: a rating sent twice is one rating.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "rftweb:simulated-rater")


@dataclass(frozen=True)
class Patience:
    """Seconds that a finished group is left to people: normally, and while a person is rating in its project."""

    nobody_there: float = 1.5
    somebody_there: float = 8.0


def account() -> User:
    """The labelled account, which nobody can log in to."""
    user, is_new = User.objects.get_or_create(
        username=USERNAME, defaults={"is_simulated": True, "first_name": DISPLAY_NAME}
    )  # fmt: skip
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def fresh_token(user: User) -> str:
    """A new secret for the process; the secrets of earlier ones end."""
    for token in user.tokens.filter(name=TOKEN_NAME, revoked_at=None):
        token.revoke()
    _, secret = Token.issue(user, TOKEN_NAME, [Token.Scope.RATE])
    return secret


def due_ratings(user: User, patience: Patience) -> list[dict[str, object]]:
    """What to post now: at most MOST_AT_ONCE ratings for rollouts that have waited long enough for people."""
    projects = set(Run.objects.running().filter(config__people__simulated=True).values_list("project_id", flat=True))
    found: list[dict[str, object]] = []
    for project in Project.objects.filter(pk__in=projects):
        Membership.objects.get_or_create(project=project, user=user, defaults={"role": Membership.Role.RATER})
        waited = patience.somebody_there if _somebody_rates(project) else patience.nobody_there
        for rollout in _asked_about(project, waited):
            stars = stars_for(rollout)
            if stars is not None:
                found.append({"rollout": rollout.pk, "stars": stars, "client_uuid": str(uuid.uuid5(NAMESPACE, str(rollout.pk)))})
    return found[:MOST_AT_ONCE]


def stars_for(rollout: Rollout) -> int | None:
    """One to five stars by the run's first scorer, sometimes one off; None when the rule cannot judge."""
    choices = rollout.run.settings.rewards
    rule = scorers.find(choices[0].scorer if choices else RULE_WITHOUT_SCORER)
    task = rollout.group.task
    value = rule(task.prompt, rollout.text, task.answer).value
    return None if value is None else noisy(1 + round(4 * min(1.0, max(0.0, value))), random.Random(rollout.pk))


def noisy(stars: int, generator: random.Random) -> int:
    """The stars, one off with chance SLIP, within one to five."""
    if generator.random() < SLIP:
        stars += generator.choice((-1, 1))
    return min(5, max(1, stars))


def _somebody_rates(project: Project) -> bool:
    recent = Now() - timedelta(seconds=ACTIVE_S)
    return Rating.objects.filter(run__project=project, rater__is_simulated=False, at__gte=recent).exists()


def _asked_about(project: Project, waited_s: float) -> list[Rollout]:
    """Rollouts whose stars somebody is still asked for, of groups that have waited so long; the most urgent first."""
    slots = Slot.objects.filter(
        state=Slot.State.OPEN, is_required=True, item__form=STARS, group__state=Group.State.WAITING,
        group__sampled_at__lte=Now() - timedelta(seconds=waited_s), run__project=project, run__state=Run.State.RUNNING,
        run__config__people__simulated=True,
    )  # fmt: skip
    members = list(slots.order_by("due_at", "pk").values_list("item__members__0", flat=True)[:MOST_AT_ONCE])
    rollouts = Rollout.objects.select_related("run", "group__task").in_bulk(members)
    return [rollouts[pk] for pk in dict.fromkeys(members)]
