"""The ratings that a run's rater model learns from, defined once for the learner and the head."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Exists, Func, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.feedback.models import ANSWERED, Adjudication, Rating
from apps.feedback.models.ratings import RatingQuerySet
from apps.feedback.rater_model.reading_decisions import decided
from apps.runs.models import Run

ABOUT = Coalesce(
    "item__members",
    Func("rollout", template="ARRAY[%(expressions)s]", output_field=ArrayField(BigIntegerField())),
)


def list_learned_ratings(run: Run | int) -> RatingQuerySet:
    """Return the ratings in force of this run (or run id) from which its model learns."""
    return not_set_aside(
        Rating.objects.counting().filter(run=run), Adjudication.objects.filter(item__run=run)
    )


def not_set_aside(ratings: RatingQuerySet, settled: QuerySet[Adjudication]) -> RatingQuerySet:
    """Filter out answers to gold, attention and norming items, and votes overruled in a dispute.

    This is the same rule as for people's own reward (`aggregating`).
    """
    ratings = ratings.filter(Q(item=None) | ~Q(item__purpose__in=ANSWERED)).annotate(about=ABOUT)
    settles = Exists(settled.filter(rating=OuterRef("pk")))
    return ratings.filter(settles | ~Exists(settled.filter(item__members=OuterRef("about"))))


def has_learnable(run: Run, minimum: int) -> bool:
    """Tell whether the model can already learn at least `minimum` ratings.

    It reads the oldest first, and no more than necessary.
    """
    learnable = 0
    last = 0
    while learnable < minimum:
        pks = list(
            list_learned_ratings(run)
            .filter(pk__gt=last)
            .order_by("pk")
            .values_list("pk", flat=True)[:minimum]
        )
        if not pks:
            return False
        learnable += sum(decision is not None for decision, _ in decided(run, pks).values())
        last = pks[-1]
    return True
