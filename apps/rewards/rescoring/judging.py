"""Groups of a rescoring in a scorer worker: leased, judged, and written once with the changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, lock_rows, unit_of_work
from apps.leases.lease import Claim
from apps.rewards.judgements import load_judgements
from apps.rewards.models import Rescored, RescoredGroup, RescoredReward, Rescoring
from apps.rewards.rescoring.comparing import ComparedGroup, Sides, compare_rewards, has_signal
from apps.rewards.scoring import (
    AnsweredQuestion,
    Question,
    count_used,
    finished_rollouts,
    known_values,
    list_missing_questions,
    list_score_fields,
)
from apps.rollouts.models import Group
from apps.runs.config import RunConfig
from apps.runs.models import NotPossible

LOOKED_AT = 10  # open rescorings, of which the first that has something left is served
NOTED = ("other_best", "signal_before", "signal_after", "done_at", *RescoredGroup.FREED)
MAX_ATTEMPTS = 5  # a group at which so many workers died is what they die of


@dataclass(frozen=True)
class TakenGroups:
    """Groups of one rescoring that this worker judges while it keeps the lease."""

    rescoring: Rescoring
    items: Sequence[RescoredGroup]
    groups: Sequence[Group]

    @property
    def claims(self) -> list[Claim]:
        return [item.claimed for item in self.items]

    @cached_property
    def plan(self) -> RunConfig:
        return self.rescoring.plan

    def environment_values(self) -> dict[int, dict[str, float | None]]:
        """Return the environment's rewards of the rollouts, which a rescoring keeps.

        Scorers of groups may read them.
        """
        values_by_rollout: dict[int, dict[str, float | None]] = defaultdict(dict)
        if self.plan.environment:
            name = self.plan.environment.name
            values_by_rollout |= {
                pk: {name: values[name]}
                for pk, values in known_values(self.groups).items()
                if name in values
            }
        return values_by_rollout

    def questions(
        self, environment_values: Mapping[int, Mapping[str, float | None]]
    ) -> list[Question]:
        return list_missing_questions(self.groups, lambda group: self.plan, environment_values)


def take_rescoring_groups(
    owner: str, seconds: float, limit: int, only: Rescoring | None = None
) -> TakenGroups | None:
    """Return up to `limit` groups of the oldest rescoring that has some left.

    None where none has.
    """
    open_rescorings = Rescoring.objects.open().filter(**({"pk": only.pk} if only else {}))
    for rescoring in open_rescorings.select_related("run__project").order_by("pk")[:LOOKED_AT]:
        items = RescoredGroup.objects.claim(rescoring, owner, seconds, limit)
        if exhausted := [item for item in items if item.attempts > MAX_ATTEMPTS]:
            with suppress(NotPossible):  # stopped meanwhile
                rescoring.fail(
                    f"group {exhausted[0].group_id} could not be scored in {MAX_ATTEMPTS} attempts"
                )
        elif items:
            Rescoring.objects.filter(pk=rescoring.pk, state=Rescoring.State.WAITING).update(
                state=Rescoring.State.RUNNING, started_at=Now()
            )
            return TakenGroups(rescoring, items, _groups(rescoring, items))
    return None


def _groups(rescoring: Rescoring, items: Sequence[RescoredGroup]) -> list[Group]:
    groups = list(
        Group.objects.filter(pk__in=[item.group_id for item in items])
        .select_related("task")
        .order_by("pk")
    )
    for group in groups:
        group.run = rescoring.run
    return groups


@unit_of_work
def record_rescoring(batch: TakenGroups, answers: Sequence[AnsweredQuestion]) -> int:
    """Write the judgements and their effect, and return how many groups were written.

    Groups that are no longer ours, or were stopped, are left out.
    """
    rescoring = lock_first(Rescoring.objects.open().filter(pk=batch.rescoring.pk))
    if rescoring is None:
        return 0
    claimed_items = {
        item.group_id: item for item in lock_rows(RescoredGroup.objects.held(batch.claims))
    }
    claimed_answers = [answer for answer in answers if answer.question.group_id in claimed_items]
    rewards = [
        RescoredReward(rescoring=rescoring, rollout_id=pk, **word)
        for answer in claimed_answers
        for pk, word in list_score_fields(answer)
    ]
    RescoredReward.objects.bulk_create(rewards)
    count_used(claimed_answers, [group for group in batch.groups if group.pk in claimed_items])
    results = {
        group.pk: result for group, result in _compared(batch, claimed_items, claimed_answers)
    }
    Rescored.objects.bulk_create(
        row for result in results.values() for row in _rescored_rows(rescoring, result)
    )
    updated_items = [
        _apply_result(claimed_items[group], result) for group, result in results.items()
    ]
    RescoredGroup.objects.bulk_update(updated_items, NOTED, batch_size=500)
    _count(rescoring, len(claimed_items))
    return len(claimed_items)


def _compared(
    batch: TakenGroups,
    claimed_items: Mapping[int, RescoredGroup],
    claimed_answers: Sequence[AnsweredQuestion],
):
    """Yield (group, what changed) of each group that we still hold, with all its rollouts.

    Rollouts that none of the new scorers judges are included.
    """
    new: dict[int, dict[int, dict[str, float | None]]] = defaultdict(dict)
    rollouts = finished_rollouts([group.pk for group in batch.groups])
    for rollout, home in rollouts.values_list("pk", "group_id"):
        new[home][rollout] = {}
    for answer in claimed_answers:
        for rollout, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
            new[answer.question.group_id][rollout][answer.question.scorer] = verdict.value
    before = load_judgements([rollout for rollouts in new.values() for rollout in rollouts])
    sides = Sides(batch.rescoring.plan_before, batch.plan)
    for group in batch.groups:
        if group.pk in claimed_items:
            yield group, compare_rewards(sides, group.task.kind, before, new[group.pk])


def _rescored_rows(rescoring: Rescoring, result: ComparedGroup) -> Sequence[Rescored]:
    for row in result.rollouts:
        row.rescoring = rescoring
    return result.rollouts


def _apply_result(item: RescoredGroup, result: ComparedGroup) -> RescoredGroup:
    item.other_best = result.other_best
    item.signal_before, item.signal_after = has_signal(result.befores), has_signal(result.afters)
    item.done_at = Now()
    for name, value in RescoredGroup.FREED.items():
        setattr(item, name, value)
    return item


def _count(rescoring: Rescoring, judged: int) -> None:
    done_count = rescoring.done + judged
    final_fields = (
        {"state": Rescoring.State.DONE, "ended_at": Now()} if done_count == rescoring.groups else {}
    )
    Rescoring.objects.filter(pk=rescoring.pk).update(done=F("done") + judged, **final_fields)
