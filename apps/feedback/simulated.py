"""The simulated rater: a labelled account that rates by the run's own rule, with human-like noise.

It keeps a demo going when nobody rates. It waits for people first, takes only what a group still
needs, and stops at once when the run's switch `people.simulated` is off. It sends its ratings to
the public rating endpoint (`manage.py simulated_rater`), as people do.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import Membership, Project, Token, User
from apps.feedback.models import STARS, Rating, Slot
from apps.feedback.simulated_answers import WRITES_NOTHING, simulate_answer
from apps.rewards import scorers
from apps.rewards.scorers import RolloutView, TaskView
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import list_turns
from apps.runs.config import ScorerChoice
from apps.runs.models import Run
from apps.runs.raters import takes_open_stars

USERNAME = "simulated-rater"
DISPLAY_NAME = "Simulated rater"
TOKEN_NAME = "simulated rater process"
SLIP = 0.25  # chance of one star too many or too few
MAX_CONCURRENT = 500  # the endpoint's limit per request
ACTIVE_S = 30.0  # a person who rated this recently is still there
RULE_WITHOUT_SCORER = "tone"
# A rollout always gets the same id and the same slip, so that a rating sent twice is one.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "rftweb:simulated-rater")


@dataclass(frozen=True)
class Patience:
    """The seconds for which an item is left to people.

    There are two values: normally, and while a person is rating in its project.
    """

    nobody_there: float = 4.0
    somebody_there: float = 8.0


def account() -> User:
    """Return the labelled account, which nobody can log in to."""
    user, is_new = User.objects.get_or_create(
        username=USERNAME, defaults={"is_simulated": True, "first_name": DISPLAY_NAME}
    )
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def fresh_token(user: User) -> str:
    """Return a new secret for the process; the secrets of earlier processes end."""
    for token in user.tokens.filter(name=TOKEN_NAME, revoked_at=None):
        token.revoke()
    _, secret = Token.issue(user, TOKEN_NAME, [Token.Scope.RATE])
    return secret


def due_ratings(user: User, patience: Patience) -> list[dict[str, Any]]:
    """Return ratings to post now: at most MAX_CONCURRENT, of items that waited long enough."""
    ratings: list[dict[str, Any]] = []
    for project, waited in _served(user, patience):
        for rollout in _asked_about(project, waited):
            stars = stars_for(rollout)
            if stars is not None:
                ratings.append(
                    {
                        "rollout": rollout.pk,
                        "stars": stars,
                        "client_uuid": str(uuid.uuid5(NAMESPACE, str(rollout.pk))),
                    }
                )
    return ratings[:MAX_CONCURRENT]


def due_claims(user: User, patience: Patience) -> dict[int, int]:
    """Return how many items of other forms than stars it may claim now, by run.

    They must have waited long enough for people.
    """
    claimable: dict[int, int] = {}
    for project, waited in _served(user, patience):
        slots = _open_slots(project, waited).exclude(item__form__in=WRITES_NOTHING)
        slots = slots.exclude(takes_open_stars("run__"), item__form=STARS)
        claimable |= dict(
            slots.values("run").annotate(n=Count("pk")).order_by().values_list("run", "n")
        )
    return claimable


def decision(item: dict) -> dict[str, object] | None:
    """Return the decision to post about a claimed item.

    Returns None if the rule cannot judge, or the form asks for text.
    """
    shown = [reply["rollout"] for reply in item["replies"]]
    rollouts = Rollout.objects.select_related("run", "group__task", "payload").in_bulk(shown)
    values = [find_reply_value(rollouts[pk]) for pk in shown]
    worth = [value for value in values if value is not None]
    if len(worth) < len(values):
        return None
    people = rollouts[shown[0]].run.settings.people
    turns = (
        sum(turn.role == "assistant" for turn in list_turns(rollouts[shown[0]]))
        if item["form"] == "turns"
        else 1
    )
    answer = simulate_answer(item["form"], shown, worth, people, turns, seed=item["slot"])
    if answer is None:
        return None
    key = str(uuid.uuid5(NAMESPACE, f"slot {item['slot']} {item['fence']}"))
    return {
        "client_uuid": key,
        "fence": item["fence"],
        "version": item["version"],
        "form": item["form"],
        "answer": answer,
    }


def stars_for(rollout: Rollout) -> int | None:
    """Return stars by the run's first scorer, sometimes one off.

    Returns None if the rule cannot judge.
    """
    value = find_reply_value(rollout)
    return None if value is None else noisy(1 + round(4 * value), random.Random(rollout.pk))


def find_reply_value(rollout: Rollout) -> float | None:
    """Return the reply's value, 0 to 1, by the run's first scorer, or else by the rule for tone.

    Returns None if the rule cannot judge.
    """
    task = rollout.group.task
    choice = next(
        iter(rollout.run.settings.scorers_of(task.kind)), ScorerChoice(scorer=RULE_WITHOUT_SCORER)
    )
    question = TaskView(task.prompt, task.answer, task.domain, task.meta)
    value = (
        scorers.find_scorer(choice.scorer)
        .judge([RolloutView(rollout.text)], question, choice.options)[0]
        .value
    )
    return None if value is None else min(1.0, max(0.0, value))


def noisy(stars: int, generator: random.Random) -> int:
    """Return the stars, one off with chance SLIP, within one to five."""
    if generator.random() < SLIP:
        stars += generator.choice((-1, 1))
    return min(5, max(1, stars))


def _served(user: User, patience: Patience) -> Iterator[tuple[Project, float]]:
    """Yield projects with a run whose switch is on, and how long its items are left to people."""
    projects = set(
        Run.objects.running()
        .filter(config__people__simulated=True)
        .values_list("project_id", flat=True)
    )
    for project in Project.objects.filter(pk__in=projects):
        Membership.objects.get_or_create(
            project=project, user=user, defaults={"role": Membership.Role.RATER}
        )
        yield (
            project,
            patience.somebody_there if _somebody_rates(project) else patience.nobody_there,
        )


def _somebody_rates(project: Project) -> bool:
    recent = Now() - timedelta(seconds=ACTIVE_S)
    return Rating.objects.filter(
        run__project=project, rater__is_simulated=False, at__gte=recent
    ).exists()


def _asked_about(project: Project, waited_s: float) -> list[Rollout]:
    """Return rollouts that still need stars, of items that waited so long.

    The most urgent first.
    """
    slots = _open_slots(project, waited_s).filter(item__form=STARS)
    slots = slots.filter(takes_open_stars("run__"))  # other forms need a claim
    members = list(
        slots.order_by("due_at", "pk").values_list("item__members__0", flat=True)[:MAX_CONCURRENT]
    )
    rollouts = Rollout.objects.select_related("run", "group__task").in_bulk(members)
    return [rollouts[pk] for pk in dict.fromkeys(members)]


def _open_slots(project: Project, waited_s: float) -> QuerySet[Slot]:
    """Return the open required slots of items that have waited so long for people.

    The time counts from when the item was opened: scoring may take longer than people are waited
    for, so that an item would be due as soon as anybody could see it.
    """
    return Slot.objects.filter(
        state=Slot.State.OPEN,
        is_required=True,
        group__state=Group.State.WAITING,
        item__opened_at__lte=Now() - timedelta(seconds=waited_s),
        run__project=project,
        run__state=Run.State.RUNNING,
        run__config__people__simulated=True,
    )
