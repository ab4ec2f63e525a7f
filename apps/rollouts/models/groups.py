"""Groups of rollouts sampled for one task, and their states.

A group's state says which worker handles it next: sampling → scoring → waiting (for people) →
judged → admitted, or dropped with a reason. Groups of evaluations, from which nothing is learned,
end as measured instead of admitted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

from django.db import OperationalError, models, transaction
from django.db.models import Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Now

from apps.accounts.compiled_queries import (
    Change,
    EqualsAny,
    Returning,
    compiled_query,
    compiled_returning,
    compiled_update,
)
from apps.accounts.locking import lock_ids, lock_rows, retrying, rows_to_lock, unit_of_work
from apps.accounts.public_text import ReasonField
from apps.leases.lease import Claim, WorkerLease, WorkerLeaseQuerySet
from apps.rollouts.excluded_tasks import count_failure
from apps.rollouts.models.rollouts import Outcome, Rollout
from apps.rollouts.partial import Partial, PartialRollout
from apps.rollouts.task_filter import Sieve, sifted
from apps.rollouts.task_sampling import sample_tasks
from apps.runs.admission import groups_allowed
from apps.runs.costs import PROMPTS, SAMPLED
from apps.runs.models import Run, StaleFence, Usage, Worker
from apps.streaming import worker_notifications
from apps.tasksets.models import Task

# Judged groups that were dropped when the refiner's attempts were used up.
GAVE_UP = Q(
    state="dropped", reason__startswith="failed ", judged_at__isnull=False, experiences=None
)

# Through `bulk_create` the same takes four times as long: a placeholder for each value.
INSERT = """
    INSERT INTO rollouts_group (run_id, opened_version, size, lease_owner, lease_until, fence,
        state, reason, attempts, awaits_rewards, answer_only, opened_at, draw_index, task_id)
    SELECT %s, %s, %s, %s, statement_timestamp() + %s, 1, 'sampling', '', 0, false, false,
        clock_timestamp(), draw, task
    FROM unnest(%s::int[], %s::bigint[]) AS drawn(draw, task)
    ORDER BY draw
    RETURNING """


class GroupQuerySet(WorkerLeaseQuerySet["Group"]):
    def claim(
        self, state: str, owner: str, seconds: float, limit: int, run: Run | None = None
    ) -> list["Group"]:
        """Claim up to `limit` groups in this state without a lease in force, oldest first.

        Groups in scoring wait until their environment has given its reward
        (apps.environments.judging). An expired lease counts as a failed attempt, since the group
        may have killed its worker; a group whose attempts are used up is dropped instead. A worker
        that was told to claim nothing gets nothing, even before it has read that order.
        """
        if self.query.where:
            raise TypeError("a claim takes from all groups: its statement is compiled once")
        claim = _claim(state, run is not None, limit)
        rows = claim(owner, timedelta(seconds=seconds), None if run is None else run.pk)
        claimed = sorted(rows, key=attrgetter("pk"))
        _with_runs(claimed, run)
        return [group for group in claimed if not group.end_if_worn_out()]

    @retrying
    def expire(self) -> int:
        """Clear expired leases, each counted as a failed attempt; return how many.

        Lists then show these groups as free. Claims do not depend on it.
        """
        with transaction.atomic():
            over = lock_ids(self.expired(), skip_locked=True)
            freed = self.filter(pk__in=over)
            return freed.update(**Group.FREED, attempts=F("attempts") + 1)

    def close_ended(self) -> int:
        """Drop the groups that ended runs left open, and return how many."""
        return len(self.filter(run__state__in=Run.ENDED).drop_open("the run ended"))

    @unit_of_work
    def drop_open(self, reason: str) -> list[int]:
        """Drop the open groups of this queryset and return their ids.

        A worker that still holds one of them finds its fence outdated.
        """
        runs = {group.pk: group.run_id for group in lock_rows(self.filter(state__in=Group.OPEN))}
        Group.objects.filter(pk__in=runs).update(
            state=Group.State.DROPPED,
            reason=reason[:200],
            closed_at=Now(),
            fence=F("fence") + 1,
            **Group.FREED,
        )
        PartialRollout.objects.filter(rollout__group__in=runs).delete()
        for run_id, count in sorted(Counter(runs.values()).items()):
            Run.objects.filter(pk=run_id).update(groups_dropped=F("groups_dropped") + count)
        return list(runs)


def _with_runs(groups: Sequence["Group"], run: Run | None = None) -> None:
    """Set the run of each group: `run`, or rows that groups of one run share; one statement."""
    runs = {run.pk: run} if run else {}
    if groups and run is None:
        runs = {row.pk: row for row in _runs(list({group.run_id for group in groups}))}
    for group in groups:
        group.run = runs[group.run_id]


class Group(WorkerLease):
    """The rollouts sampled for one task, or the answers that experts gave to it.

    A group of expert answers has no draw and size 0.
    """

    class State(models.TextChoices):
        SAMPLING = "sampling"
        SCORING = "scoring"
        WAITING = "waiting", "waiting for people"
        JUDGED = "judged"
        ADMITTED = "admitted"
        MEASURED = "measured", "evaluated"
        DROPPED = "dropped"

    OPEN = (State.SAMPLING, State.SCORING, State.WAITING, State.JUDGED)
    CLOSED = (State.ADMITTED, State.MEASURED, State.DROPPED)
    # Until then ratings count: a judged group's rewards are being computed.
    HEARING = (State.SAMPLING, State.SCORING, State.WAITING)
    # This stage of work succeeded, so the group is free and its earlier failures are cleared.
    GETS_ON = {**WorkerLease.FREED, "attempts": 0}

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="groups", db_index=False
    )  # `groups_of_a_run` and the unique constraint serve look-ups
    draw_index = models.PositiveIntegerField(
        null=True,
        help_text=(
            "Index of the group in the run, which determines the task. NULL for expert answers."
        ),
    )
    task = models.ForeignKey(Task, on_delete=models.PROTECT)
    size = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.SAMPLING)
    reason = ReasonField(max_length=200, blank=True, help_text="Why the group was dropped.")
    opened_version = models.PositiveIntegerField(
        help_text="Published weight version when the group was opened."
    )
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Failed attempts since the last progress."
    )
    deadline_at = models.DateTimeField(null=True, help_text="Deadline for people's ratings.")
    awaits_rewards = models.BooleanField(
        default=False,
        help_text=(
            "Rewards of the environment are still missing; the group is scored after they arrive."
        ),
    )
    answer_only = models.BooleanField(
        default=False,
        help_text="Opened beyond the staleness limit: answered, but never used in training.",
    )
    opened_at = models.DateTimeField(auto_now_add=True)
    sampled_at = models.DateTimeField(null=True)
    judged_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(
        null=True, help_text="When the group was admitted, measured or dropped."
    )

    objects: ClassVar = GroupQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "draw_index"], name="one_group_per_draw"),
            models.UniqueConstraint(
                fields=["run", "task"],
                condition=Q(draw_index=None),
                name="one_expert_group_per_task",
            ),
            models.CheckConstraint(
                condition=Q(draw_index__isnull=False) | Q(size=0),
                name="nobody_drew_what_experts_said",
            ),
            models.CheckConstraint(
                condition=~Q(state="dropped") | ~Q(reason=""), name="a_dropped_group_says_why"
            ),
        ]
        indexes = [
            # Group.objects.claim: the oldest open groups of a state.
            models.Index(
                fields=["state", "id"],
                name="open_groups",
                condition=Q(state__in=["sampling", "scoring", "waiting", "judged"]),
            ),
            models.Index(fields=["run", "state"], name="groups_of_a_run"),
            # For the page that shows why the newest were dropped.
            models.Index(
                fields=["run", "-id"], name="dropped_groups", condition=Q(state="dropped")
            ),
            # For the page of a step: what was dropped between two moments.
            models.Index(
                fields=["run", "closed_at"],
                name="dropped_by_the_clock",
                condition=Q(state="dropped"),
            ),
            # For the page of a step: the attempt at a task before this one.
            models.Index(
                fields=["run", "task", "draw_index"],
                name="attempts_at_a_task",
                condition=Q(draw_index__isnull=False),
            ),
            # apps.environments.judging: those that may go on, and those that have waited too long.
            models.Index(
                fields=["run"],
                name="groups_awaiting_rewards",
                condition=Q(awaits_rewards=True, state="scoring"),
            ),
        ]

    def __str__(self) -> str:
        return (
            f"{self.run_id} group {self.draw_index}"
            if self.draw_index is not None
            else f"{self.run_id} experts on {self.task_id}"
        )

    # -- opening

    @classmethod
    @unit_of_work
    def open(
        cls,
        run: Run,
        owner: str,
        seconds: float,
        limit: int,
        version: int,
        sieve: Sieve | None = None,
    ) -> list["Group"]:
        """Open up to `limit` groups with their rollouts, claimed by `owner`, as the pace allows.

        `version` is the weight version that will sample them. The pace counts from it even if a
        newer version has been published since the caller loaded its own. Otherwise the rollouts
        would be stale when a step takes them. The run's row is locked while its counter moves,
        so two explorers never open the same draw. `sieve` checks the tasks first
        (apps.rollouts.task_filter). Raises NothingToDraw if it leaves none.
        """
        locked = Run.locked(run.pk)
        pace = replace(locked.pace, published_version=min(version, locked.published_version))
        plan = locked.settings
        count = (
            min(limit, groups_allowed(pace))
            if locked.is_live and plan.samples and not plan.serve
            else 0
        )
        if not count or Worker.objects.told_to_take_nothing(owner).exists():
            return []
        draws = list(range(locked.groups_opened, locked.groups_opened + count))
        tasks = sifted(locked, plan, draws, sieve) if sieve else sample_tasks(locked, plan, draws)
        if not tasks:
            return []
        Run.objects.filter(pk=run.pk).update(groups_opened=F("groups_opened") + count)
        groups = _insert(
            locked.pk,
            pace.published_version,
            plan.group_size,
            owner,
            timedelta(seconds=seconds),
            draws,
            [task.pk for task in tasks],
        )
        groups.sort(key=attrgetter("draw_index"))
        for group, task in zip(groups, tasks, strict=True):
            group.run, group.task = locked, task
        Rollout.objects.begin(locked, [group.pk for group in groups], plan.group_size)
        return groups

    # -- state changes

    def writable(self) -> GroupQuerySet:
        """Return a query for this group, empty once our fence is outdated or our lease is over.

        A group that waits for people has no lease, and is written under its fence alone.
        """
        return Group.objects.not_expired().under([self.claimed])

    @classmethod
    @retrying
    @transaction.atomic(savepoint=False)
    def finish_rollouts(cls, claims: dict[int, Claim], outcomes: list[Outcome]) -> set[int]:
        """Write all rollouts that ended together, in one transaction.

        Complete groups go on to scoring.

        `claims` by group id. Outcomes of groups with a newer fence or an expired lease are refused.
        Returns the groups that are still ours. Writing an outcome twice changes nothing.
        """
        by_id = {outcome.rollout_id: outcome for outcome in outcomes}
        ours = _rows_under_claims(claims, _lock_groups_of(list(by_id)))
        written = Rollout.write_outcomes(by_id.values(), ours)
        cls._count_tokens((ours[group], by_id[pk]) for pk, group in written.items())
        if _send_to_scoring(list(ours)):
            transaction.on_commit(lambda: worker_notifications.notify_workers("score"), robust=True)
        return set(ours)

    @staticmethod
    def _count_tokens(ended: Iterable[tuple["Group", Outcome]]) -> None:
        """Add sampled and prompt tokens to the usage of each (run, worker)."""
        totals: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for group, outcome in ended:
            if outcome.tokens is not None:
                counts = {
                    SAMPLED: len(outcome.tokens.completion_ids),
                    PROMPTS: len(outcome.tokens.prompt_ids),
                }
                totals[group.run_id, group.lease_owner].update(counts)
        Usage.add_all(totals)

    @classmethod
    @transaction.atomic
    def set_aside(
        cls, claims: dict[int, Claim], partials: Iterable[Partial], free: set[int]
    ) -> set[int]:
        """Save partial rollouts, and release the groups in `free`.

        Any explorer may then claim the released groups. Groups that are not ours, or have ended,
        are refused as by `finish_rollouts`. Return the groups that are still ours.
        """
        by_rollout = {partial.rollout_id: partial for partial in partials}
        homes = dict(
            Rollout.objects.filter(pk__in=by_rollout, state=Rollout.State.SAMPLING).values_list(
                "pk", "group_id"
            )
        )
        ours = set(_rows_under_claims(claims, _lock_sampling(list({*homes.values(), *free}))))
        PartialRollout.objects.put(by_rollout[pk] for pk, group in homes.items() if group in ours)
        if released := ours & free:
            PartialRollout.objects.leave(released)
            cls.objects.filter(pk__in=released).update(**cls.GETS_ON)
            transaction.on_commit(
                lambda: worker_notifications.notify_workers("explore"), robust=True
            )
        return ours

    def move(self, to: str, **stamps: object) -> None:
        """Move the group to its next state and give up the lease.

        Raises StaleFence when the group is no longer ours. A closed group is never moved: a
        repeated drop would be counted twice.
        """
        if self.state not in self.OPEN:
            raise StaleFence(f"group {self.pk} is closed: {self.state}")
        if (
            not self.writable()
            .filter(state=self.state)
            .update(**{**self.GETS_ON, "state": to, **stamps})
        ):
            raise StaleFence(f"group {self.pk}: fence {self.fence} is no longer in force")
        self.state = to

    @classmethod
    @transaction.atomic(savepoint=False)
    def move_held(cls, groups: Sequence["Group"], to: str, **stamps: object) -> list["Group"]:
        """Move those of the groups that are still ours to their next state, as `move` does.

        Returns them in the order given.
        """
        if not groups:
            return []
        open_ones = _lock_open([group.pk for group in groups])
        open_keys = {(row.pk, row.fence, row.state) for row in open_ones}
        ours = [group for group in groups if (group.pk, group.fence, group.state) in open_keys]
        cls.move_locked(ours, to, **stamps)
        return ours

    @classmethod
    def move_locked(cls, groups: Sequence["Group"], to: str, **stamps: object) -> None:
        """Move groups whose rows the caller has locked, and found to be ours, to their next state.

        One statement.
        """
        if not groups:
            return
        changes = {**cls.GETS_ON, "state": to, **stamps}
        cls.objects.filter(EqualsAny("pk", [group.pk for group in groups])).update(**changes)
        for group in groups:
            group.state = to

    @retrying
    def drop(self, reason: str, failed: bool = False) -> None:
        """Close the group untrained, with the reason; the run may open another in its place.

        `failed` means that work on the group failed, not that its answers were bad; this counts
        against its task (apps.rollouts.excluded_tasks).
        """
        before = self.state
        try:
            self._drop(reason, failed)
        except OperationalError:
            self.state = before  # nothing was written: restore it for another attempt
            raise

    @transaction.atomic
    def _drop(self, reason: str, failed: bool) -> None:
        was_sampled = self.state == self.State.SAMPLING
        self.reason = reason[:200]
        self.move(self.State.DROPPED, reason=self.reason, closed_at=Now(), attempts=self.attempts)
        if was_sampled:
            PartialRollout.objects.filter(rollout__group=self).delete()
        Run.objects.filter(pk=self.run_id).update(groups_dropped=F("groups_dropped") + 1)
        if failed and self.draw_index is not None:
            count_failure(self.run, self.task, group=self.pk, reason=self.reason)
        transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)

    @unit_of_work
    def fail(self, reason: str) -> None:
        """Record a failed attempt: free the group for another one, or drop it when none is left."""
        if not self.writable().filter(state__in=self.OPEN).update(attempts=F("attempts") + 1):
            raise StaleFence(
                f"group {self.pk} is closed, or fence {self.fence} is no longer in force"
            )
        self.refresh_from_db(fields=["attempts", "state"])
        if self.attempts >= self.run.settings.group_attempts:
            self.drop(f"{self._failed}: {reason}", failed=True)
        else:
            self.writable().update(**self.FREED)

    @property
    def _failed(self) -> str:
        return f"failed {self.attempts} time{'' if self.attempts == 1 else 's'}"

    def end_if_worn_out(self) -> bool:
        """Drop this claimed group if it has no attempt left; return whether it was dropped.

        Its last attempt ended with the death of the worker that held it.
        """
        if not self.attempts or self.attempts < self.run.settings.group_attempts:
            return False
        with suppress(StaleFence):  # the lease expired during the work
            self.drop(f"{self._failed}: its worker stopped responding", failed=True)
        return True


# -- statements of each claim and each step, compiled once


@cache
def _claim(
    state: str, of_one_run: bool, limit: int
) -> Callable[[str, timedelta, int | None], list[Group]]:
    """Return the claim of up to `limit` groups in this state: of one run, or of running ones."""

    def claim(owner: str, lease: timedelta, run: int | None) -> Returning[Group]:
        conditions: dict[str, Any] = {"state": state}
        if state == Group.State.SCORING:
            conditions["awaits_rewards"] = False
        if of_one_run:
            conditions["run"] = run
        else:
            conditions["run__in"] = Run.objects.running()
        may_take = ~Exists(Worker.every.told_to_take_nothing(owner))
        leased = ExpressionWrapper(Q(lease_until__isnull=False), models.BooleanField())
        had_lease = Cast(leased, models.IntegerField())
        duration: Any = lease  # the place of one: a timedelta cannot be wrapped
        until = Now() + ExpressionWrapper(duration, models.DurationField())
        return Group.objects.filter(may_take, **conditions).claiming(
            owner, until, limit, attempts=F("attempts") + had_lease
        )

    return compiled_returning(claim)


@compiled_returning
def _insert(
    run: int,
    version: int,
    size: int,
    owner: str,
    lease: timedelta,
    draws: list[int],
    tasks: list[int],
) -> Returning[Group]:
    """Insert groups that are being sampled, one for each draw and its task."""
    columns = ", ".join(f'"{field.column}"' for field in Group._meta.concrete_fields)
    return Returning(Group, INSERT + columns, [run, version, size, owner, lease, draws, tasks])


@compiled_query
def _runs(pks: list[int]) -> QuerySet[Run]:
    return Run.objects.filter(EqualsAny("pk", pks))


@compiled_query
def _lock_groups_of(rollouts: list[int]) -> QuerySet[Group]:
    """Lock the groups being sampled that these rollouts belong to."""
    ended = Rollout.objects.filter(EqualsAny("pk", rollouts)).values("group")
    return rows_to_lock(_sampling().filter(pk__in=ended))


@compiled_query
def _lock_sampling(pks: list[int]) -> QuerySet[Group]:
    return rows_to_lock(_sampling().filter(EqualsAny("pk", pks)))


def _sampling() -> GroupQuerySet:
    return Group.objects.not_expired().filter(state=Group.State.SAMPLING)


def _rows_under_claims(claims: dict[int, Claim], rows: Iterable[Group]) -> dict[int, Group]:
    """Return those of the rows that are under these claims, by id."""
    return {row.pk: row for row in rows if claims.get(row.pk) == row.claimed}


@compiled_update
def _send_to_scoring(pks: list[int]) -> Change:
    """Pass on those of these groups that have no rollout being sampled any more."""
    still = Rollout.objects.filter(group=OuterRef("pk"), state=Rollout.State.SAMPLING)
    changes = {"state": Group.State.SCORING, "sampled_at": Now(), **Group.GETS_ON}
    return Group.objects.filter(~Exists(still), EqualsAny("pk", pks)), changes


@compiled_query
def _lock_open(pks: list[int]) -> QuerySet[Group]:
    open_ones = Group.objects.filter(EqualsAny("pk", pks), state__in=Group.OPEN)
    return rows_to_lock(open_ones.not_expired())
