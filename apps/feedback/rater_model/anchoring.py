"""Anchors: an answer of the base policy to each ranked prompt, which fixes the zero of comparisons.

Without anchors, a model that has learned only from rankings cannot notice that all replies of a
group have become bad, because they are compared only with each other. An anchor is shown and ranked
like the others, and is never trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import prefetch_related_objects
from django.db.models.functions import Now

from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import Tokens, pack, unpack_payload
from apps.runs.config import RunConfig
from apps.runs.limits import read_limits

FORM = "ranking"


@dataclass(frozen=True)
class Unanchored:
    """A group whose ranking still lacks its anchor, with what the base policy needs to answer."""

    group: Group
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float


def wants_anchor(plan: RunConfig) -> bool:
    people = plan.people
    return (
        people.form == FORM
        and people.anchor
        and people.rater_model is not None
        and people.per_group > 0
    )


def unanchored(groups: Sequence[Group]) -> list[Unanchored]:
    """Return the single-turn groups that need an anchor and have none."""
    wanting = {group.pk: group for group in groups if wants_anchor(group.run.settings)}
    if not wanting:
        return []
    for anchored in Rollout.objects.filter(
        group__in=wanting, origin=Rollout.Origin.SYNTHETIC
    ).values_list("group", flat=True):
        wanting.pop(anchored, None)
    rows = RolloutPayload.objects.filter(
        rollout__group__in=wanting, rollout__state="finished", rollout__group__task__follow_ups=[]
    )
    unanchored_groups = {}
    prefetch_related_objects(list(wanting.values()), "task")
    for pk, data in rows.order_by("rollout").values_list("rollout__group", "data"):
        prompt_ids = unpack_payload(data).prompt_ids
        if pk not in unanchored_groups and prompt_ids:
            group = wanting[pk]
            plan = wanting[pk].run.settings
            max_tokens = read_limits(plan, group.task.meta).max_tokens
            assert max_tokens is not None  # the run's own limit at least
            unanchored_groups[pk] = Unanchored(
                group, prompt_ids, max_tokens, plan.sampling.temperature
            )
    return list(unanchored_groups.values())


@transaction.atomic
def keep_anchor(
    of: Unanchored, completion_ids: Sequence[int], logprobs: Sequence[float], text: str
) -> Rollout:
    """Save the group's anchor; an existing one stays."""
    tokens = Tokens(
        of.prompt_ids, tuple(completion_ids), tuple(logprobs), (1,) * len(completion_ids), ((0, 0),)
    )
    anchor, is_new = Rollout.objects.get_or_create(
        group=of.group,
        origin=Rollout.Origin.SYNTHETIC,
        sample_index=0,
        defaults={
            "run_id": of.group.run_id,
            "state": Rollout.State.FINISHED,
            "text": text,
            "first_version": 0,
            "stop_reason": "length" if len(completion_ids) >= of.max_tokens else "stop",
            "last_version": 0,
            "prompt_tokens": len(of.prompt_ids),
            "completion_tokens": len(completion_ids),
            "finished_at": Now(),
        },
    )
    if is_new:
        RolloutPayload.objects.create(rollout=anchor, data=pack(tokens))
    return anchor


def find_anchors(groups: Sequence[Group]) -> dict[int, int]:
    """Return the anchor's rollout by group."""
    rows = Rollout.objects.filter(
        group__in=groups, origin=Rollout.Origin.SYNTHETIC, state=Rollout.State.FINISHED
    )
    return dict(rows.order_by("-sample_index").values_list("group", "pk"))
