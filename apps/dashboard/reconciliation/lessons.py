"""Checks of expert data, preferences and snapshots of lessons."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, Max, OuterRef, Q

from apps.buffer.models import Experience, Snapshot
from apps.feedback.models import LESSONS, Preference
from apps.pipelines.models import OwnExpert
from apps.rollouts.models import Rollout

SHOWN = 20


def expert_rollouts_match_their_demonstrations() -> Iterator[str]:
    """Yield expert rollouts that differ from their demonstration.

    Each must also have exactly one expert experience.
    """
    expert_rollouts = Rollout.objects.filter(origin=Rollout.Origin.EXPERT)
    yield from (
        f"{rollout}: expert rollout without a demonstration"
        for rollout in expert_rollouts.filter(expert_answer=None)[:SHOWN]
    )
    for rollout in expert_rollouts.exclude(text=F("expert_answer__demonstration__answer"))[:SHOWN]:
        yield f"{rollout}: the text differs from its demonstration"
    learned = Count("experiences", filter=Q(experiences__kind=Experience.Kind.EXPERT))
    yield from (
        f"{r}: has {r.n} expert experiences instead of one"
        for r in expert_rollouts.annotate(n=learned).exclude(n=1)[:SHOWN]
    )


def expert_rows_name_their_parents() -> Iterator[str]:
    """Yield expert rows made from the policy's answers without an admitted parent."""
    expert_rows = Experience.objects.expert().filter(rollout__origin=Rollout.Origin.POLICY)
    yield from (
        f"{row}: expert experience without a source"
        for row in expert_rows.filter(rollout__own_expert=None)[:SHOWN]
    )
    usual = Experience.objects.usual().filter(rollout=OuterRef("rollout"))
    yield from (
        f"{row}: made from an answer that was not admitted"
        for row in expert_rows.filter(~Exists(usual))[:SHOWN]
    )
    rows = OwnExpert.objects.filter(~Exists(expert_rows.filter(rollout=OuterRef("rollout"))))
    yield from (
        f"{row.rollout}: recorded as expert data, but has no expert experience"
        for row in rows.select_related("rollout")[:SHOWN]
    )


def preferences_match_their_rollouts() -> Iterator[str]:
    for half in ("chosen", "rejected"):
        pairs = Preference.objects.exclude(**{f"{half}_rollout": None})
        for pair in pairs.exclude(**{half: F(f"{half}_rollout__text")})[:SHOWN]:
            yield f"{pair}: the {half} answer differs from its rollout"


def snapshots_are_complete() -> Iterator[str]:
    """Yield snapshots that lack lessons, and steps whose batches have the wrong size."""
    for snapshot in Snapshot.objects.select_related("run").annotate(
        n=Count("items"), last=Max("items__position")
    ):
        if (snapshot.n, snapshot.last) != (snapshot.size, snapshot.size - 1):
            yield (
                f"{snapshot}: has {snapshot.n} items, the last at position {snapshot.last}, "
                f"but its size is {snapshot.size}"
            )
        existing_count = (
            LESSONS[snapshot.source].objects.filter(pk__in=snapshot.items.values("lesson")).count()
        )
        if existing_count != snapshot.n:
            yield f"{snapshot}: {snapshot.n - existing_count} lessons no longer exist"
        plan = snapshot.run.settings.snapshot
        assert plan is not None  # snapshots are made by runs that have the section
        steps = snapshot.run.steps.annotate(n=Count("lessons")).exclude(n=plan.rows)
        yield from (
            f"{step}: has a wrong number of lessons in its batch: {step.n}"
            for step in steps[:SHOWN]
        )
