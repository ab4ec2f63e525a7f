"""Which rollouts' surprise is still to be found, and its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.models import Surprise as SurpriseRow
from apps.feedback.rater_model.reading import Surprise
from apps.rollouts.models import Group, RolloutPayload
from apps.rollouts.payload import unpack


@dataclass(frozen=True)
class Unread:
    """A finished rollout without its surprise: what the policy saw and said, and which completion tokens it chose itself."""

    rollout: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    action_mask: tuple[int, ...]

    def surprise(self, nats: Sequence[float]) -> Surprise:
        """Of the tokens that the policy chose. Raises ValueError when that is none, or one has no finite number."""
        return Surprise.of([one for one, chosen in zip(nats, self.action_mask, strict=True) if chosen])


def unread(groups: Sequence[Group]) -> list[Unread]:
    """Finished rollouts of those groups whose runs have a rater model."""
    asking = [group.pk for group in groups if group.run.settings.people.rater_model]
    if not asking:
        return []
    rows = RolloutPayload.objects.filter(rollout__group__in=asking, rollout__state="finished", rollout__surprise=None)
    found = []
    for rollout, data in rows.order_by("rollout").values_list("rollout", "data"):
        tokens = unpack(data)
        if tokens.prompt_ids and any(tokens.action_mask):
            found.append(Unread(rollout, tokens.prompt_ids, tokens.completion_ids, tokens.action_mask))
    return found


def keep(found: dict[int, Surprise]) -> None:
    """Write what was found, by rollout; what is there already stays."""
    SurpriseRow.objects.bulk_create(
        (SurpriseRow(rollout_id=rollout, mean=s.mean, worst=s.worst, rare=s.rare) for rollout, s in found.items()),
        ignore_conflicts=True,
    )
