"""Runs whose raters have rated, each in their own way, through the ordinary functions."""

import random
from collections.abc import Callable, Mapping

from apps.accounts.models import Membership, Project, User
from apps.feedback.claiming import HeldItem, claim
from apps.feedback.ratings.items import submit
from apps.runs.models import Run
from tests.feedback.asking import answer_to

REPLIES = (
    "I am very sorry about your parcel. I have traced it: it reaches you on Thursday.",
    "Not our fault. Wait.",
    "Sorry, it is late. We look into it and write to you tomorrow.",
    "PARCEL parcel parcel the the the",
)
Way = Callable[[HeldItem], dict]


def rater(project: Project, name: str) -> User:
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
    return user


def decide(
    user: User, run: Run, way: Way, seconds: float = 6.0, critique: str = "", most: int = 1000
) -> int:
    """Let the user answer items in that way; return how many."""
    for done in range(most):
        held = claim(user, run.pk)
        if not held:
            return done
        submit(
            user,
            held[0].slot_id,
            answer_to(held[0], way(held[0]), seconds=seconds, critique=critique),
        )
    return most


def worth(text: str) -> int:
    """Return the stars that a strict person gives one of REPLIES."""
    return {REPLIES[0]: 5, REPLIES[1]: 1, REPLIES[2]: 4}.get(text, 1)


def strict(held: HeldItem) -> dict:
    return {"stars": worth(held.members[0].text)}


def lenient(held: HeldItem) -> dict:
    return {"stars": min(5, worth(held.members[0].text) + 1)}


def anyhow(seed: int = 0) -> Way:
    chance = random.Random(seed)
    return lambda held: {"stars": chance.randint(1, 5)}


def better(held: HeldItem) -> dict:
    """Return the preference between two replies by their worth."""
    first, second = (worth(member.text) for member in held.members)
    return {"preference": max(-3, min(3, second - first))}


def first_shown(held: HeldItem) -> dict:
    return {"preference": -2}


def everybody(
    project: Project, run: Run, ways: Mapping[str, tuple[Way, float]], critique: str = ""
) -> dict[str, User]:
    """Let each of these people answer all their items; a name maps to the way and the seconds per
    item.
    """
    people = {name: rater(project, name) for name in ways}
    for name, (way, seconds) in ways.items():
        decide(people[name], run, way, seconds, critique)
    return people
