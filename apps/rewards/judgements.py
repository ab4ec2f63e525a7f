"""Judgements of rollouts, as the rule that combines them reads them."""

from collections import defaultdict
from collections.abc import Sequence

from django.db.models import BooleanField, Case, Q, When

from apps.rewards.combining import Judgement
from apps.rewards.models import ALL_SIMULATED, LATE, Reward


def load_judgements(rollouts: Sequence[int]) -> dict[int, list[Judgement]]:
    """Return the current judgements of machines and people, by rollout.

    Judgements by people that came after the group was judged are left out.
    """
    found: dict[int, list[Judgement]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=rollouts, is_current=True).exclude(
        details__has_key=LATE
    )
    simulated = Q(by__is_simulated=True) | Q(details__has_key=ALL_SIMULATED)
    rows = current.annotate(
        simulated=Case(When(simulated, then=True), default=False, output_field=BooleanField())
    )
    columns = ("rollout_id", "scorer", "value", "source", "simulated")
    for rollout, scorer, value, source, is_simulated in rows.values_list(*columns):
        is_human = source == Reward.Source.HUMAN
        found[rollout].append(Judgement(scorer, value, is_human, source, is_simulated))
    return found
