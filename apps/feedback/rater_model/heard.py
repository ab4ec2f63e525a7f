"""Which ratings a run's rater model learns from: one answer, for the learner, for a head, and for who waits for them."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Exists, Func, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.feedback.models import KNOWN, Adjudication, Rating
from apps.feedback.rater_model.reading_decisions import decided
from apps.runs.models import Run

ABOUT = Coalesce("item__members", Func("rollout", template="ARRAY[%(expressions)s]", output_field=ArrayField(BigIntegerField())))


def heard(run: Run | int) -> QuerySet[Rating]:
    """What people stand by of this run (or the run of this id) and its model learns from."""
    return not_set_aside(Rating.objects.counting().filter(run=run), Adjudication.objects.filter(item__run=run))


def not_set_aside(said: QuerySet[Rating], settled: QuerySet[Adjudication]) -> QuerySet[Rating]:
    """Of these ratings, without the answers to gold items and attention checks; of replies whose dispute was settled only
    the decision that settled it, as in people's own reward (`aggregating`).
    """
    said = said.filter(Q(item=None) | ~Q(item__purpose__in=KNOWN)).annotate(about=ABOUT)
    settles = Exists(settled.filter(rating=OuterRef("pk")))
    return said.filter(settles | ~Exists(settled.filter(item__members=OuterRef("about"))))


def has_learnable(run: Run, wanted: int) -> bool:
    """Whether the model can learn so many of them already; reads no more than it takes to know, the oldest first."""
    found, last = 0, 0
    while found < wanted:
        pks = list(heard(run).filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:wanted])
        if not pks:
            return False
        found += sum(decision is not None for decision, _ in decided(run, pks).values())
        last = pks[-1]
    return True
