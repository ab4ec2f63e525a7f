"""Seeding a run with groups of another one: copied with tokens and behaviour logprobs, unjudged.

They are judged, refined and learned from as if the run had sampled them with its version 0. So they
always have the greatest staleness, and are dropped as soon as the bound requires; losses use the
logprobs of the weights that really sampled them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from apps.accounts.locking import retrying
from apps.buffer.models import Experience, Seed
from apps.buffer.models.replays import batched
from apps.buffer.rows import copied_rows
from apps.policies.fingerprint import tokenizer_fingerprint
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import pack, unpack_payload
from apps.runs.admission import groups_allowed
from apps.runs.models import Run

ROLLOUTS_AT_ONCE = 1_000  # rollouts whose arrays are in memory together
# the only reason for dropping a group after admission that does not matter here
TOO_OLD = "stale: "


class NotSeeded(ValueError):
    """An error for a run that cannot be seeded; the message says why and what to do."""


@dataclass(frozen=True)
class SeedableGroups:
    """The groups found for seeding.

    `matching` were asked for and admitted; `fit` are those that the run can learn from; `taken`
    were copied now.
    """

    matching: int
    fit: int
    taken: int
    rollouts: int = 0


@retrying
def seed_run(
    run: Run,
    of: Run,
    rollouts: QuerySet[Rollout],
    limit: int | None = None,
    *,
    dry_run: bool = False,
) -> SeedableGroups:
    """Copy the newest groups of `of` that hold a rollout of `rollouts` into `run`, in draw order.

    At most `limit`, and no more than the run can learn from before they are too old. Nothing is
    copied twice into one run, and nothing at all with `dry_run`. Raises NotSeeded.
    """
    with transaction.atomic():
        locked = Run.locked(run.pk)
        if why := why_not_seedable(locked, of):
            raise NotSeeded(why)
        matching = _admitted(of).filter(rollouts__in=rollouts).distinct()
        fit = _fit(locked, matching)
        room = groups_allowed(locked.pace)
        newest = fit.order_by("-draw_index").values_list("pk", flat=True)
        group_ids = list(newest[: room if limit is None else min(room, limit)])[::-1]
        seedable = SeedableGroups(matching.count(), fit.count(), len(group_ids))
        return (
            seedable
            if dry_run or not group_ids
            else replace(seedable, rollouts=_copy(locked, group_ids))
        )


def why_not_seedable(run: Run, of: Run) -> str:
    """Return why nothing of `of` can seed `run`; empty where it can."""
    if run.state != Run.State.CREATED:
        return (
            f"{run.slug} is {run.get_state_display()}: seed a run before you start it, or create "
            "another one"
        )
    if run.pk == of.pk or run.project_id != of.project_id:
        return "name another run of the same project"
    for candidate in (run, of):
        plan = candidate.settings
        if plan.algorithm.learns_from_lessons:
            return f"{candidate.slug} trains on lessons, so it has no groups and cannot use any"
        if plan.environment or plan.serve:
            return (
                f"{candidate.slug} acts in an environment, which gives rewards during play: its "
                "groups cannot be copied"
            )
    if run.settings.replay:
        return (
            f"{run.slug} replays {run.settings.replay.run}: its batches are recorded, so it cannot "
            "use other groups"
        )
    if not {*run.taskset_ids} & {*of.taskset_ids}:
        return (
            f"{of.slug} samples from {of.asks_of}, but {run.slug} from {run.asks_of}: they need a "
            "common taskset"
        )
    return _why_tokenizers_differ(run, of)


def _why_tokenizers_differ(run: Run, of: Run) -> str:
    """Return why another policy's tokens cannot be used; empty when tokenizers are identical."""
    if run.policy_id == of.policy_id:
        return ""
    run_fingerprint = tokenizer_fingerprint(run.policy)
    source_fingerprint = tokenizer_fingerprint(of.policy)
    if run_fingerprint and run_fingerprint == source_fingerprint:
        return ""
    return (
        f"{of.slug} was sampled by {of.policy.slug}, whose tokenizer may differ from that of "
        f"{run.policy.slug}"
    )


def _admitted(of: Run) -> QuerySet[Group]:
    # Any other reason means that people excluded the group on a suspicion.
    acceptable = Experience.objects.usual().filter(
        Q(reason="") | Q(reason__startswith=TOO_OLD), group=OuterRef("pk")
    )
    groups = of.groups.filter(
        Exists(acceptable), state=Group.State.ADMITTED, draw_index__isnull=False
    )
    return groups.exclude(task__in=of.left_out.values("task"))


def _fit(run: Run, groups: QuerySet[Group]) -> QuerySet[Group]:
    """Filter to complete groups within the run's limits and without text of people."""
    plan = run.settings
    rollouts = Rollout.objects.filter(group=OuterRef("pk"), origin=Rollout.Origin.POLICY)
    bare = Q(state=Rollout.State.FINISHED) & (Q(payload=None) | Q(arrays_released_at__isnull=False))
    unfit = (
        bare | Q(completion_tokens__gt=plan.sampling.max_tokens) | Q(interventions__isnull=False)
    )
    fit = groups.filter(
        ~Exists(rollouts.filter(unfit)),
        size__lte=plan.group_size,
        task__taskset__in=run.taskset_ids,
    )
    return fit.exclude(seeded__run=run).exclude(task__in=run.left_out.values("task"))


def _copy(run: Run, ids: list[int]) -> int:
    """Copy these groups under the run's next draws; return how many rollouts came with them."""
    first = run.groups_opened
    stored = Group.objects.in_bulk(ids)
    groups = Group.objects.bulk_create(
        Group(
            run=run,
            draw_index=first + place,
            task_id=stored[pk].task_id,
            size=stored[pk].size,
            state=Group.State.SCORING,
            opened_version=0,
            sampled_at=stored[pk].sampled_at,
        )
        for place, pk in enumerate(ids)
    )
    new = {pk: group.pk for pk, group in zip(ids, groups, strict=True)}
    Seed.objects.bulk_create(
        Seed(run=run, group=group, of_id=pk) for pk, group in zip(ids, groups, strict=True)
    )
    count = copied_rows(Rollout, "group", new, "o.origin = 'policy'", run=run.pk)
    copied_rows(RolloutPayload, "rollout", _pairs(new))
    _as_its_base(run, new.values())
    Run.objects.filter(pk=run.pk).update(groups_opened=F("groups_opened") + len(groups))
    run.topic.record("seeded", groups=len(groups), rollouts=count, of=stored[ids[0]].run.slug)
    return count


def _pairs(new: Mapping[int, int]) -> dict[int, int]:
    """Map the old rollout ids of the copied groups to the new ones."""
    copies = Rollout.objects.filter(group__in=new.values())
    new_ids = {
        (group, sample): pk
        for pk, group, sample in copies.values_list("pk", "group_id", "sample_index")
    }
    old = Rollout.objects.filter(group__in=new, origin=Rollout.Origin.POLICY)
    return {
        pk: new_ids[new[group], sample]
        for pk, group, sample in old.values_list("pk", "group_id", "sample_index")
    }


def _as_its_base(run: Run, groups: Iterable[int]) -> None:
    """Mark these groups as sampled by version 0; logprobs stay those of the real sampler."""
    finished = Rollout.objects.filter(group__in=list(groups), first_version__isnull=False)
    finished.update(first_version=0, last_version=0)
    payloads = RolloutPayload.objects.filter(rollout__in=finished).order_by("pk")
    for some in batched(payloads.iterator(ROLLOUTS_AT_ONCE), ROLLOUTS_AT_ONCE):
        for payload in some:
            tokens = unpack_payload(payload.data)
            payload.data = pack(
                replace(tokens, segments=tuple((start, 0) for start, _ in tokens.segments))
            )
        RolloutPayload.objects.bulk_update(some, ["data"])
