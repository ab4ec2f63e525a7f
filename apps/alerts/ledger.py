"""Invariants of costs and alerts for `manage.py reconcile`: each yields its violations."""

from collections.abc import Iterator
from math import isclose

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum

from apps.alerts.models import Alert
from apps.buffer.models import Recorded, Seed
from apps.environments.models import Episode
from apps.rollouts.models import Rollout
from apps.runs.costs import SAMPLED
from apps.runs.models import Run, RunRemoval, Usage, UsageTotal

SHOWN = 20


def sampled_tokens_are_counted() -> Iterator[str]:
    """Yield runs whose sampled tokens differ from the sum over their finished replies.

    Copied tokens and imported rollouts do not count.
    """
    counted = dict(
        Usage.objects.filter(kind=SAMPLED).order_by().values_list("run").annotate(n=Sum("amount"))
    )
    copied = Recorded.objects.filter(group=OuterRef("group"))
    seeded = Seed.objects.filter(group=OuterRef("group"))
    imported = Episode.objects.filter(rollout=OuterRef("pk")).exclude(origin={})
    policy_rollouts = Rollout.objects.filter(
        state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    policy_rollouts = policy_rollouts.filter(
        ~Exists(copied), ~Exists(imported), ~Exists(seeded)
    ).order_by()
    sampled = dict(policy_rollouts.values_list("run").annotate(n=Sum("completion_tokens")))
    names = dict(Run.objects.values_list("pk", "slug"))
    for run in sorted(counted.keys() | sampled.keys()):
        if round(counted.get(run, 0)) != sampled.get(run, 0):
            yield (
                f"{names[run]}: {counted.get(run, 0):,.0f} sampled tokens are counted, but "
                f"its rollouts have {sampled.get(run, 0):,}"
            )


def usage_totals_match_their_hours() -> Iterator[str]:
    """Yield usage totals that differ from the sums over the hours.

    A run's total has two parts: its own usage, and that of the evaluations of its versions. What
    evaluations used that are deleted stays in the total: it was spent.
    """
    removals = RunRemoval.objects.filter(state=RunRemoval.State.DONE)
    deleted_in = set(removals.values_list("project", flat=True))
    usage = Usage.objects.order_by()
    own_sums = _sums_by(usage, "run")
    evaluations = _sums_by(usage.exclude(run__evaluates=None), "run__evaluates__run")
    totals = (
        UsageTotal.objects.select_related("run")
        .annotate(slug=F("run__slug"))
        .order_by("run", "kind")
    )
    totals_by_place = {(total.run_id, total.kind): total for total in totals}
    for place in sorted(own_sums.keys() | evaluations.keys() | totals_by_place.keys()):
        total = totals_by_place.get(place) or UsageTotal(
            run_id=place[0], kind=place[1], own=0.0, evaluations=0.0
        )
        own_sum = own_sums.get(place, 0.0)
        evaluations_sum = evaluations.get(place, 0.0)
        has_deleted = bool(total.pk) and total.run.project_id in deleted_in
        if has_deleted:
            evaluations_sum = max(evaluations_sum, total.evaluations)
        if not (_agree(total.own, own_sum) and _agree(total.evaluations, evaluations_sum)):
            stored = f"its own {total.own:g} and its evaluations' {total.evaluations:g}"
            yield f"{total}: {stored}; by the hour {own_sum:g} and {evaluations_sum:g}"


def _sums_by(usage: QuerySet[Usage], run: str) -> dict[tuple[int, str], float]:
    """Return the sums over the hours by run and kind; `run` is the column that names the run."""
    sums = usage.values_list(run, "kind").annotate(total=Sum("amount"))
    return {(run_id, kind): total for run_id, kind, total in sums}


def _agree(total: float, hours: float) -> bool:
    """Tell whether a total is the sum over the hours, apart from rounding."""
    return isclose(total, hours, rel_tol=1e-6, abs_tol=1e-3)


def alerts_have_a_history() -> Iterator[str]:
    """Yield alerts whose history lacks the entry of opening or of closing, or has it twice."""
    alerts = Alert.objects.annotate(
        opened=Count("entries", filter=Q(entries__what="opened")),
        closed=Count("entries", filter=Q(entries__what="closed")),
    ).order_by("pk")
    wrong = alerts.exclude(
        Q(opened=1, closed=0, closed_at=None) | Q(opened=1, closed=1, closed_at__isnull=False)
    )
    for alert in wrong[:SHOWN]:
        yield (
            f"alert {alert.pk} ({alert}): its history has {alert.opened} openings and "
            f"{alert.closed} closings"
        )
