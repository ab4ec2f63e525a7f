"""What was said of rollouts, as the rule that combines it reads it."""

from collections import defaultdict
from collections.abc import Sequence

from apps.rewards.combining import Judgement
from apps.rewards.models import LATE, Reward


def judgements_of(rollouts: Sequence[int]) -> dict[int, list[Judgement]]:
    """By rollout, what stands of machines and people; without what people said when the group was judged already."""
    found: dict[int, list[Judgement]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=rollouts, is_current=True).exclude(details__has_key=LATE)
    for rollout, scorer, value, source in current.values_list("rollout_id", "scorer", "value", "source"):
        found[rollout].append(Judgement(scorer, value, source == Reward.Source.HUMAN, source))
    return found
