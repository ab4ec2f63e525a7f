"""Find rollouts without a base NLL, and store the rows with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.models import RolloutBaseNll as SurpriseRow
from apps.feedback.rater_model.reading import BaseNll
from apps.rollouts.models import Group, RolloutPayload
from apps.rollouts.payload import unpack_payload


@dataclass(frozen=True)
class UnscoredRollout:
    """A finished rollout without its base NLL, and which completion tokens the policy chose."""

    rollout: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    action_mask: tuple[int, ...]

    def surprise(self, nats: Sequence[float]) -> BaseNll:
        """Compute the base NLL of the tokens that the policy chose.

        Raises ValueError if there are none, or one has no finite number.
        """
        return BaseNll.of(
            [
                token_nats
                for token_nats, chosen in zip(nats, self.action_mask, strict=True)
                if chosen
            ]
        )


def unread(groups: Sequence[Group]) -> list[UnscoredRollout]:
    """Return the finished rollouts without a base NLL, of groups whose runs have a rater model."""
    asking = [group.pk for group in groups if group.run.settings.people.rater_model]
    if not asking:
        return []
    rows = RolloutPayload.objects.filter(
        rollout__group__in=asking, rollout__state="finished", rollout__surprise=None
    )
    unscored = []
    for rollout, data in rows.order_by("rollout").values_list("rollout", "data"):
        tokens = unpack_payload(data)
        if tokens.prompt_ids and any(tokens.action_mask):
            unscored.append(
                UnscoredRollout(
                    rollout, tokens.prompt_ids, tokens.completion_ids, tokens.action_mask
                )
            )
    return unscored


def save_base_nll(base_nlls: dict[int, BaseNll]) -> None:
    """Save base NLLs by rollout; existing rows are unchanged."""
    SurpriseRow.objects.bulk_create(
        (
            SurpriseRow(rollout_id=rollout, mean=s.mean, worst=s.worst, rare=s.rare)
            for rollout, s in base_nlls.items()
        ),
        ignore_conflicts=True,
    )
