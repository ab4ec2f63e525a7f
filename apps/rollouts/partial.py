"""Partial rollouts: the state of a rollout when its slice is over, for any explorer to resume.

Kimi k1.5 (arXiv 2501.12599, §2.6.2) caps the tokens sampled of a rollout at one time and resumes
long ones later. Here a slice is `sampling.slice_tokens` tokens. When every unfinished rollout of a
group has had its slice, the group is released, and the explorer that claims it resumes from these
rows. They hold nothing of an engine: token ids, logprobs, mask, and the version of each segment.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection, models
from django.db.models.functions import Now

from apps.rollouts.payload import Tokens, pack, unpack_payload


@dataclass(frozen=True)
class Partial:
    """The state of one rollout at the end of its slice.

    `notes` holds its turns as JSON, written and read by the explorer.
    """

    rollout_id: int
    tokens: Tokens
    notes: dict
    slices: int  # slices so far, including this one


class PartialRolloutQuerySet(models.QuerySet):
    def put(self, partials: Iterable[Partial]) -> None:
        """Save these partial rollouts, replacing earlier ones of the same rollouts."""
        PartialRollout.objects.bulk_create(
            (
                PartialRollout(
                    rollout_id=partial.rollout_id,
                    data=pack(partial.tokens),
                    completion_tokens=len(partial.tokens.completion_ids),
                    notes=partial.notes,
                    slices=partial.slices,
                    left_fence=None,
                    stored_at=Now(),
                )
                for partial in partials
            ),
            update_conflicts=True,
            unique_fields=["rollout"],
            update_fields=[
                "data",
                "completion_tokens",
                "notes",
                "slices",
                "left_fence",
                "stored_at",
            ],
        )

    def leave(self, groups: Iterable[int]) -> None:
        """Reset the fence of these groups' partial rollouts until the groups are claimed again."""
        with connection.cursor() as cursor:
            cursor.execute(LEAVE, [list(groups)])


class PartialRollout(models.Model):
    """The saved state of a rollout that is being sampled; deleted when the rollout ends."""

    rollout = models.OneToOneField(
        "rollouts.Rollout", on_delete=models.CASCADE, primary_key=True, related_name="partial"
    )
    data = models.BinaryField(
        help_text=("Token arrays of the rollout so far (apps.rollouts.payload).")
    )
    completion_tokens = models.PositiveIntegerField()
    notes = models.JSONField(help_text="Turns of the rollout, and the interventions of people.")
    slices = models.PositiveIntegerField(help_text="Number of slices so far.")
    left_fence = models.BigIntegerField(
        null=True,
        help_text=(
            "Fence of the group when its lease was released, so that the saved text "
            "is complete. NULL: an engine may have generated more."
        ),
    )
    stored_at = models.DateTimeField(db_default=Now())

    objects = PartialRolloutQuerySet.as_manager()

    def __str__(self) -> str:
        return f"rollout {self.rollout_id}: {self.completion_tokens} tokens set aside"

    @property
    def tokens(self) -> Tokens:
        return unpack_payload(self.data)


# In SQL, since Django's update cannot use joined columns.
LEAVE = """
    UPDATE rollouts_partialrollout p SET left_fence = g.fence
    FROM rollouts_rollout r JOIN rollouts_group g ON g.id = r.group_id
        WHERE r.id = p.rollout_id AND g.id = ANY(%s)"""
