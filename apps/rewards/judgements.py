"""Judgements of rollouts, as the rule that combines them reads them."""

from collections import defaultdict
from collections.abc import Sequence

from django.db.models import BooleanField, Case, Q, QuerySet, When

from apps.accounts.compiled_queries import EqualsAny, compiled_query
from apps.rewards.combining import Judgement
from apps.rewards.models import ALL_SIMULATED, LATE, Reward


def load_judgements(rollouts: Sequence[int]) -> dict[int, list[Judgement]]:
    """Return the current judgements of machines and people, by rollout.

    Judgements by people that came after the group was judged are left out.
    """
    by_rollout: dict[int, list[Judgement]] = defaultdict(list)
    for rollout, scorer, value, source, is_simulated in _current(list(rollouts)):
        is_human = source == Reward.Source.HUMAN
        by_rollout[rollout].append(Judgement(scorer, value, is_human, source, is_simulated))
    return by_rollout


@compiled_query
def _current(rollouts: list[int]) -> QuerySet[Reward, tuple[int, str, float | None, str, bool]]:
    current = Reward.objects.filter(EqualsAny("rollout", rollouts), is_current=True)
    simulated = Q(by__is_simulated=True) | Q(details__has_key=ALL_SIMULATED)
    rows = current.exclude(details__has_key=LATE).annotate(
        simulated=Case(When(simulated, then=True), default=False, output_field=BooleanField())
    )
    return rows.values_list("rollout_id", "scorer", "value", "source", "simulated")
