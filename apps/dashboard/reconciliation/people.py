"""Checks of people's ratings: rewards, slots and acknowledged requests."""

from collections.abc import Callable, Iterator

from django.db.models import Exists, FloatField, OuterRef
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from apps.feedback.models import STARS, Rating, Slot
from apps.rewards.combining import PEOPLE
from apps.rewards.models import Reward
from apps.rollouts.models import Group

SHOWN = 20


def acknowledged_ratings_are_stored(client_uuids: set[str]) -> Callable[[], Iterator[str]]:
    """Return a check against a client's own list of acknowledged ratings."""

    def find() -> Iterator[str]:
        stored = {
            str(key)
            for key in Rating.objects.filter(client_uuid__in=client_uuids).values_list(
                "client_uuid", flat=True
            )
        }
        yield from (
            f"rating {key} was acknowledged but is not stored"
            for key in sorted(client_uuids - stored)
        )

    return find


def rewards_of_people_match_their_ratings() -> Iterator[str]:
    human = Reward.objects.filter(source=Reward.Source.HUMAN).exclude(by=None)
    yield from (
        f"reward {reward.pk}: given by a person, but has no rating"
        for reward in human.filter(rating_reward=None)[:SHOWN]
    )
    stars = Cast(KeyTextTransform("stars", "rating_reward__rating__answer"), FloatField())
    for reward in human.filter(scorer=STARS).exclude(value=(stars - 1.0) / 4.0)[:SHOWN]:
        yield f"reward {reward.pk}: {reward.value} does not match the stars of the rating"
    together = Reward.objects.filter(scorer=PEOPLE, by=None)
    for reward in together.exclude(details__ratings__0__isnull=False)[:SHOWN]:
        yield f"reward {reward.pk}: combined from people's ratings, but lists none"


def nobody_is_asked_about_closed_groups() -> Iterator[str]:
    """Yield required open slots whose group no longer waits for people."""
    for slot in Slot.objects.filter(state=Slot.State.OPEN, is_required=True).exclude(
        group__state=Group.State.WAITING
    )[:SHOWN]:
        yield f"{slot}: open, but group {slot.group_id} no longer waits for people"


def finished_slots_have_ratings() -> Iterator[str]:
    """Yield slots that are done without a rating by their rater."""
    ratings = Rating.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"))
    for slot in Slot.objects.filter(~Exists(ratings), state=Slot.State.DONE)[:SHOWN]:
        yield f"{slot}: done, but has no rating"
