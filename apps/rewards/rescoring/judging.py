"""Groups of a rescoring on their way through a scorer worker: taken under a lease, judged, written once with what it changed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.locking import lock, lock_first, unit_of_work
from apps.rewards.judgements import judgements_of
from apps.rewards.models import Rescored, RescoredGroup, RescoredReward, Rescoring
from apps.rewards.rescoring.comparing import Compared, Sides, compared, has_signal
from apps.rewards.scoring import Answered, Question, count_used, finished_rollouts, known_values, questions_of, words_of
from apps.rollouts.models import Claim, Group
from apps.runs.config import RunConfig
from apps.runs.models import NotPossible

LOOKED_AT = 10  # open rescorings, of which the first that has something left is served
NOTED = ("other_best", "signal_before", "signal_after", "done_at", "lease_owner", "lease_until")
MOST_ATTEMPTS = 5  # a group at which so many workers died is what they die of


@dataclass(frozen=True)
class Taken:
    """Groups of one rescoring that are ours to judge, for as long as their lease is kept."""

    rescoring: Rescoring
    items: Sequence[RescoredGroup]
    groups: Sequence[Group]

    @property
    def claims(self) -> list[Claim]:
        return [item.claimed for item in self.items]

    @cached_property
    def plan(self) -> RunConfig:
        return self.rescoring.plan

    def known(self) -> dict[int, dict[str, float | None]]:
        """What the environment said of the rollouts: it stays, and scorers of groups may hear it."""
        found: dict[int, dict[str, float | None]] = defaultdict(dict)
        if self.plan.environment:
            name = self.plan.environment.name
            found |= {pk: {name: said[name]} for pk, said in known_values(self.groups).items() if name in said}
        return found

    def questions(self, known: Mapping[int, Mapping[str, float | None]]) -> list[Question]:
        return questions_of(self.groups, lambda group: self.plan, known)


def take(owner: str, seconds: float, limit: int, only: Rescoring | None = None) -> Taken | None:
    """Up to `limit` groups of the oldest rescoring that has some left; None where none has."""
    found = Rescoring.objects.open().filter(**({"pk": only.pk} if only else {}))
    for rescoring in found.select_related("run__project").order_by("pk")[:LOOKED_AT]:
        items = RescoredGroup.objects.claim(rescoring, owner, seconds, limit)
        if worn := [item for item in items if item.attempts > MOST_ATTEMPTS]:
            with suppress(NotPossible):  # stopped meanwhile
                rescoring.fail(f"group {worn[0].group_id} was begun {MOST_ATTEMPTS} times and never judged to the end")
        elif items:
            Rescoring.objects.filter(pk=rescoring.pk, state=Rescoring.State.WAITING).update(
                state=Rescoring.State.RUNNING, started_at=Now()
            )
            return Taken(rescoring, items, _groups(rescoring, items))
    return None


def _groups(rescoring: Rescoring, items: Sequence[RescoredGroup]) -> list[Group]:
    groups = list(Group.objects.filter(pk__in=[item.group_id for item in items]).select_related("task").order_by("pk"))
    for group in groups:
        group.run = rescoring.run
    return groups


@unit_of_work
def record(taken: Taken, answers: Sequence[Answered]) -> int:
    """Write what was said and what that changes; returns how many groups. Nothing of what is no longer ours, or was stopped."""
    rescoring = lock_first(Rescoring.objects.open().filter(pk=taken.rescoring.pk))
    if rescoring is None:
        return 0
    ours = {item.group_id: item for item in lock(RescoredGroup.objects.held(taken.claims))}
    heard = [answer for answer in answers if answer.question.group_id in ours]
    rewards = [RescoredReward(rescoring=rescoring, rollout_id=pk, **word) for answer in heard for pk, word in words_of(answer)]
    RescoredReward.objects.bulk_create(rewards)
    count_used(heard, [group for group in taken.groups if group.pk in ours])
    results = {group.pk: result for group, result in _compared(taken, ours, heard)}
    Rescored.objects.bulk_create(row for result in results.values() for row in _of(rescoring, result))
    noted = [_noted(ours[group], result) for group, result in results.items()]
    RescoredGroup.objects.bulk_update(noted, NOTED, batch_size=500)
    _count(rescoring, len(ours))
    return len(ours)


def _compared(taken: Taken, ours: Mapping[int, RescoredGroup], heard: Sequence[Answered]):
    """(group, what changed) of each group that is ours, with those of its rollouts that none of the new scorers judges, too."""
    new: dict[int, dict[int, dict[str, float | None]]] = defaultdict(dict)
    for rollout, group in finished_rollouts(taken.groups).values_list("pk", "group_id"):
        new[group][rollout] = {}
    for answer in heard:
        for rollout, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
            new[answer.question.group_id][rollout][answer.question.scorer] = verdict.value
    before = judgements_of([rollout for rollouts in new.values() for rollout in rollouts])
    sides = Sides(taken.rescoring.plan_before, taken.plan)
    for group in taken.groups:
        if group.pk in ours:
            yield group, compared(sides, group.task.kind, before, new[group.pk])


def _of(rescoring: Rescoring, result: Compared) -> Sequence[Rescored]:
    for row in result.rollouts:
        row.rescoring = rescoring
    return result.rollouts


def _noted(item: RescoredGroup, result: Compared) -> RescoredGroup:
    item.other_best = result.other_best
    item.signal_before, item.signal_after = has_signal(result.befores), has_signal(result.afters)
    item.done_at, item.lease_owner, item.lease_until = Now(), "", None
    return item


def _count(rescoring: Rescoring, judged: int) -> None:
    done = rescoring.done + judged
    ended = {"state": Rescoring.State.DONE, "ended_at": Now()} if done == rescoring.groups else {}
    Rescoring.objects.filter(pk=rescoring.pk).update(done=F("done") + judged, **ended)
