"""Groups of rollouts drawn for one task, and their way through the stations.

A group's state is where it stands on its way (the next station finds its work by it):
sampling → scoring → waiting (for people) → judged → admitted, or dropped with a reason; in an evaluation, of which nothing
is learned, measured in the place of admitted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from django.db import OperationalError, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.locking import lock, lock_ids, retrying, unit_of_work
from apps.accounts.public_text import ReasonField
from apps.rollouts.drawing import drawn
from apps.rollouts.left_out import count_failure
from apps.rollouts.models.rollouts import Outcome, Rollout
from apps.rollouts.partial import Partial, PartialRollout
from apps.rollouts.sifting import Sieve, sifted
from apps.runs.admission import groups_allowed
from apps.runs.costs import PROMPTS, SAMPLED
from apps.runs.models import MAY_TAKE, Run, StaleFence, Usage, Worker, after
from apps.streaming import bells
from apps.tasksets.models import Task

# Not leased (people's judgement needs no lease), or leased until later: a worker that slept past its lease writes
# nothing, whether or not another has taken its work over yet.
IN_FORCE = Q(lease_until=None) | Q(lease_until__gte=Now())
# Groups that were judged, and that the refiner failed at until their attempts were used up.
GAVE_UP = Q(state="dropped", reason__startswith="failed ", judged_at__isnull=False, experiences=None)


@dataclass(frozen=True)
class Claim:
    """A group taken for work: who writes under this fence, and nobody who holds an older one."""

    group_id: int
    fence: int


class GroupQuerySet(models.QuerySet):
    def claim(self, state: str, owner: str, seconds: float, limit: int, run: Run | None = None) -> list["Group"]:
        """Take up to `limit` groups in this state whose lease is free or over, oldest first, until the lease ends.

        What is to be scored waits until its environment has paid for it (apps.environments.judging). A lease that ran out is an
        attempt that failed: whoever had the group may have died of it. One whose attempts are used up is dropped instead.
        SKIP LOCKED inside a materialised CTE: two claimers never wait for and never take the same row. A worker that was told to
        take nothing takes nothing, whether it has heard of it or not.
        """
        waits = f"AND {MAY_TAKE} AND NOT (state = '{Group.State.SCORING}' AND awaits_rewards)"
        of_run = "AND run_id = %(run)s" if run else "AND run_id IN (SELECT id FROM runs_run WHERE state = 'running')"
        sql = f"""
            WITH due AS MATERIALIZED (
                SELECT id FROM rollouts_group
                WHERE state = %(state)s {of_run} {waits} AND (lease_until IS NULL OR lease_until < statement_timestamp())
                ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
            UPDATE rollouts_group g SET lease_owner = %(owner)s, fence = g.fence + 1,
                attempts = g.attempts + (g.lease_until IS NOT NULL)::int,
                lease_until = statement_timestamp() + %(seconds)s * interval '1 second'
            FROM due WHERE g.id = due.id RETURNING g.*"""
        values = {"state": state, "owner": owner, "seconds": seconds, "limit": limit, "run": run.pk if run else None}
        taken = sorted(self.raw(sql, values), key=lambda group: group.pk)
        return [group for group in taken if not group.drop_worn_out()]

    @retrying
    def keep(self, claims: Iterable[Claim], seconds: float) -> set[int]:
        """Extend the leases of these claims; returns the groups that are still ours (the rest were taken over)."""
        claims = list(claims)
        if not claims:
            return set()
        held = Q()
        for claim in claims:
            held |= Q(pk=claim.group_id, fence=claim.fence)
        with transaction.atomic():
            kept = set(lock_ids(self.filter(held, lease_until__gte=Now())))
            self.filter(pk__in=kept).update(lease_until=after(seconds))
        return kept

    @retrying
    def release_expired(self) -> int:
        """Clear leases that are over, each a failed attempt, so that lists show free work as free. Claims need not wait for it."""
        with transaction.atomic():
            over = lock_ids(self.filter(lease_until__lt=Now()), skip_locked=True)
            freed = {"lease_owner": "", "lease_until": None, "attempts": F("attempts") + 1}
            return self.filter(pk__in=over).update(**freed)

    @retrying
    def give_back(self, claims: Iterable[Claim]) -> int:
        """Whoever held these goes away in good order: they are anybody's at once, and nothing has failed."""
        held = Q(pk__in=[])
        for claim in claims:
            held |= Q(pk=claim.group_id, fence=claim.fence)
        with transaction.atomic():
            ours = lock_ids(self.filter(held, lease_until__gte=Now()))
            return self.filter(pk__in=ours).update(lease_owner="", lease_until=None)

    def close_ended(self) -> int:
        """Drop what ended runs left open. Returns how many."""
        return len(self.filter(run__state__in=Run.ENDED).drop_open("the run ended"))

    @unit_of_work
    def drop_open(self, reason: str) -> list[int]:
        """Drop those of them that are open; a worker that still holds one finds its fence gone. Returns their ids."""
        runs = {group.pk: group.run_id for group in lock(self.filter(state__in=Group.OPEN))}
        Group.objects.filter(pk__in=runs).update(
            state=Group.State.DROPPED,
            reason=reason[:200],
            closed_at=Now(),
            lease_owner="",
            lease_until=None,
            fence=F("fence") + 1,
        )
        PartialRollout.objects.filter(rollout__group__in=runs).delete()
        for run_id, count in sorted(Counter(runs.values()).items()):
            Run.objects.filter(pk=run_id).update(groups_dropped=F("groups_dropped") + count)
        return list(runs)


class Group(models.Model):
    """The rollouts drawn together for one task; or, drawn by nobody and of size 0, the answers that experts gave to it."""

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
    # Until then what people say is heard: a judged group's rewards are being made.
    HEARING = (State.SAMPLING, State.SCORING, State.WAITING)
    # Work on it was done: it is anybody's, and failures before were not this group's doing.
    GETS_ON = {"lease_owner": "", "lease_until": None, "attempts": 0}

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="groups")
    draw_index = models.PositiveIntegerField(
        null=True, help_text="The nth draw of the run; decides the task. NULL: experts' answers."
    )
    task = models.ForeignKey(Task, on_delete=models.PROTECT)
    size = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.SAMPLING)
    reason = ReasonField(max_length=200, blank=True, help_text="Why it was dropped.")
    opened_version = models.PositiveIntegerField(help_text="The published version when it was opened.")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Times that work on it failed since it last got on.")
    deadline_at = models.DateTimeField(null=True, help_text="Until when it waits for people.")
    awaits_rewards = models.BooleanField(
        default=False, help_text="What its rollouts earned where they were played is not known yet: it is not scored before."
    )
    answer_only = models.BooleanField(
        default=False, help_text="Asked where the staleness bound had no room: answered, and never trained on."
    )
    lease_owner = models.CharField(max_length=80, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    opened_at = models.DateTimeField(auto_now_add=True)
    sampled_at = models.DateTimeField(null=True)
    judged_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True, help_text="Admitted, measured or dropped.")

    objects = GroupQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "draw_index"], name="one_group_per_draw"),
            models.UniqueConstraint(fields=["run", "task"], condition=Q(draw_index=None), name="one_expert_group_per_task"),
            models.CheckConstraint(condition=Q(draw_index__isnull=False) | Q(size=0), name="nobody_drew_what_experts_said"),
            models.CheckConstraint(condition=~Q(state="dropped") | ~Q(reason=""), name="a_dropped_group_says_why"),
        ]
        indexes = [
            # Group.objects.claim: the oldest open groups of a state.
            models.Index(
                fields=["state", "id"], name="open_groups", condition=Q(state__in=["sampling", "scoring", "waiting", "judged"])
            ),
            models.Index(fields=["run", "state"], name="groups_of_a_run"),
            # Why the newest were dropped.
            models.Index(fields=["run", "-id"], name="dropped_groups", condition=Q(state="dropped")),
            # apps.environments.judging: those that may go on, and those that have waited too long.
            models.Index(fields=["run"], name="groups_awaiting_rewards", condition=Q(awaits_rewards=True, state="scoring")),
        ]

    def __str__(self) -> str:
        return (
            f"{self.run_id} group {self.draw_index}" if self.draw_index is not None else f"{self.run_id} experts on {self.task_id}"
        )

    @property
    def claimed(self) -> Claim:
        return Claim(self.pk, self.fence)

    # -- birth ------------------------------------------------------------------------------------------------------

    @classmethod
    @unit_of_work
    def open(cls, run: Run, owner: str, seconds: float, at_most: int, version: int, sieve: Sieve | None = None) -> list["Group"]:
        """Open as many groups as the run's pace allows, up to `at_most`, each with its rollouts, claimed by `owner`.

        `version` is the one that will sample them: a version published since the caller loaded its own must not
        widen the pace, or what is sampled now would be stale when its step comes. The run's row is locked while its
        counter moves: several explorers never open one draw twice. `sieve` looks at the tasks first (apps.rollouts.sifting):
        raises NothingToDraw where it would leave none.
        """
        locked = Run.locked(run.pk)
        pace = replace(locked.pace, published_version=min(version, locked.published_version))
        plan = locked.settings
        count = min(at_most, groups_allowed(pace)) if locked.is_live and plan.samples and not plan.serve else 0
        if not count or Worker.objects.told_to_take_nothing(owner).exists():
            return []
        draws = list(range(locked.groups_opened, locked.groups_opened + count))
        tasks = sifted(locked, plan, draws, sieve) if sieve else drawn(locked, plan, draws)
        if not tasks:
            return []
        Run.objects.filter(pk=run.pk).update(groups_opened=F("groups_opened") + count)
        groups = cls.objects.bulk_create(
            cls(run=locked, draw_index=draw, task=task, size=plan.group_size, opened_version=pace.published_version,
                lease_owner=owner, lease_until=after(seconds), fence=1)
            for draw, task in zip(draws, tasks, strict=True)
        )  # fmt: skip
        Rollout.objects.bulk_create(
            Rollout(group=group, run=locked, sample_index=n) for group in groups for n in range(plan.group_size)
        )
        return groups

    # -- its way ----------------------------------------------------------------------------------------------------

    def held(self) -> GroupQuerySet:
        """This group, as long as our fence holds and our lease (if it needs one) is not over."""
        return Group.objects.filter(IN_FORCE, pk=self.pk, fence=self.fence)

    @classmethod
    @unit_of_work
    def finish_rollouts(cls, claims: dict[int, Claim], outcomes: list[Outcome]) -> set[int]:
        """Write all rollouts that ended together, in one transaction; a group with all its rollouts goes on to scoring.

        `claims` by group id. Outcomes of groups whose fence has moved on, or whose lease is over, are refused: they are not ours.
        Returns the groups that are still ours. Writing an outcome twice changes nothing.
        """
        rows = Rollout.objects.filter(pk__in=[one.rollout_id for one in outcomes]).select_related("group")
        known = {row.pk: row for row in rows.only("state", "group", "group__lease_owner", "group__run")}
        ours = cls._locked_ours(claims, {row.group_id for row in known.values()})
        open_ones = {pk: row for pk, row in known.items() if row.group_id in ours and row.state == Rollout.State.SAMPLING}
        ended = list({one.rollout_id: one for one in outcomes if one.rollout_id in open_ones}.values())
        Rollout.write_outcomes(ended)
        cls._count_tokens((open_ones[one.rollout_id].group, one) for one in ended)
        done = ours - set(Rollout.objects.filter(group__in=ours, state=Rollout.State.SAMPLING).values_list("group_id", flat=True))
        if done:
            cls.objects.filter(pk__in=done).update(state=cls.State.SCORING, sampled_at=Now(), **cls.GETS_ON)
            transaction.on_commit(lambda: bells.ring("score"), robust=True)
        return ours

    @staticmethod
    def _count_tokens(ended: Iterable[tuple["Group", Outcome]]) -> None:
        """What was sampled of each run, by the worker that holds the group: with the rollouts, or not at all."""
        found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for group, outcome in ended:
            if outcome.tokens is not None:
                said = {SAMPLED: len(outcome.tokens.completion_ids), PROMPTS: len(outcome.tokens.prompt_ids)}
                found[group.run_id, group.lease_owner].update(said)
        Usage.add_all(found)

    @classmethod
    @transaction.atomic
    def set_aside(cls, claims: dict[int, Claim], partials: Iterable[Partial], free: set[int]) -> set[int]:
        """Keep what was said so far of these rollouts; the groups `free` are from now on whoever's claims them first.

        What is not ours, or has ended, is refused as by `finish_rollouts`. Returns the groups that are still ours.
        """
        partials = {one.rollout_id: one for one in partials}
        homes = dict(Rollout.objects.filter(pk__in=partials, state=Rollout.State.SAMPLING).values_list("pk", "group_id"))
        ours = cls._locked_ours(claims, {*homes.values(), *free})
        PartialRollout.objects.put(partials[pk] for pk, group in homes.items() if group in ours)
        if left := ours & free:
            PartialRollout.objects.leave(left)
            cls.objects.filter(pk__in=left).update(**cls.GETS_ON)
            transaction.on_commit(lambda: bells.ring("explore"), robust=True)
        return ours

    @classmethod
    def _locked_ours(cls, claims: dict[int, Claim], groups: set[int]) -> set[int]:
        """Those of the groups, locked, that are being sampled under these claims."""
        rows = lock(cls.objects.filter(IN_FORCE, pk__in=groups, state=cls.State.SAMPLING))
        return {row.pk for row in rows if row.pk in claims and row.fence == claims[row.pk].fence}

    def move(self, to: str, **stamps: object) -> None:
        """Hand the group to its next station, giving up the lease. Raises StaleFence when it is no longer ours.

        A closed group moves no more: a drop told twice would be counted twice.
        """
        if self.state not in self.OPEN:
            raise StaleFence(f"group {self.pk} is closed: {self.state}")
        if not self.held().filter(state=self.state).update(**{**self.GETS_ON, "state": to, **stamps}):
            raise StaleFence(f"group {self.pk}: fence {self.fence} is no longer in force")
        self.state = to

    @classmethod
    @transaction.atomic
    def move_held(cls, groups: Sequence["Group"], to: str, **stamps: object) -> list["Group"]:
        """Hand those of the groups to their next station that are still ours, as `move` does; returns them in the order given."""
        open_ones = cls.objects.filter(pk__in=[group.pk for group in groups], state__in=cls.OPEN)
        held = {(row.pk, row.fence, row.state) for row in lock(open_ones.filter(IN_FORCE))}
        ours = [group for group in groups if (group.pk, group.fence, group.state) in held]
        cls.objects.filter(pk__in=[group.pk for group in ours]).update(state=to, **cls.GETS_ON, **stamps)
        for group in ours:
            group.state = to
        return ours

    @retrying
    def drop(self, reason: str, failed: bool = False) -> None:
        """Close the group untrained, with its reason; the run may open another in its place.

        `failed`: not the answers were the matter, but work on them; that counts against its task (apps.rollouts.left_out).
        """
        before = self.state
        try:
            self._drop(reason, failed)
        except OperationalError:
            self.state = before  # nothing was written: another attempt begins as this one did
            raise

    @transaction.atomic
    def _drop(self, reason: str, failed: bool) -> None:
        was_sampled = self.state == self.State.SAMPLING
        self.reason = reason[:200]
        self.move(self.State.DROPPED, reason=self.reason, closed_at=Now(), attempts=self.attempts)
        if was_sampled:
            PartialRollout.objects.filter(rollout__group=self).delete()
        Run.objects.filter(pk=self.run_id).update(groups_dropped=F("groups_dropped") + 1)
        if failed:
            count_failure(self)
        transaction.on_commit(lambda: bells.ring("explore"), robust=True)

    @unit_of_work
    def fail(self, reason: str) -> None:
        """Work on it failed: free it for another attempt, or drop it when the run's attempts are used up."""
        if not self.held().filter(state__in=self.OPEN).update(attempts=F("attempts") + 1):
            raise StaleFence(f"group {self.pk} is closed, or fence {self.fence} is no longer in force")
        self.refresh_from_db(fields=["attempts", "state"])
        if self.attempts >= self.run.settings.group_attempts:
            self.drop(f"{self._failed}: {reason}", failed=True)
        else:
            self.held().update(lease_owner="", lease_until=None)

    @property
    def _failed(self) -> str:
        return f"failed {self.attempts} time{'' if self.attempts == 1 else 's'}"

    def drop_worn_out(self) -> bool:
        """Drop this claimed group if it has no attempt left, as its last one died with whoever had it; says whether it was so."""
        if not self.attempts or self.attempts < self.run.settings.group_attempts:
            return False
        with suppress(StaleFence):  # slower than its lease
            self.drop(f"{self._failed}: whoever worked on it went away", failed=True)
        return True
