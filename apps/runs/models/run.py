"""A run: one training of one policy, from its plan to its end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models, transaction
from django.db.models import Exists, F, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, lock_one, retrying, unit_of_work
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField
from apps.policies.models import Policy
from apps.runs import absent, adapters, evaluated, limits, pictures, scales, sources
from apps.runs.admission import Pace, pace_of_evaluation
from apps.runs.changing import changed
from apps.runs.config import ConfigError, RunConfig, parse
from apps.runs.evaluation import set_of
from apps.runs.models.run_lists import RunQuerySet
from apps.runs.models.worker import Worker
from apps.streaming import bells
from apps.streaming.models import Topic
from apps.tasksets.models import Task, Taskset


@lru_cache(maxsize=512)
def _parsed(config: str) -> RunConfig:
    """Parsing takes a millisecond and stations ask many times a second; a RunConfig is frozen."""
    return parse(json.loads(config))


class StaleFence(Exception):
    """Another worker has taken this work over; whoever presents the old fence writes nothing."""


class NotPossible(Exception):
    """The run's state does not allow this act; the message says which states do."""


class ChangedMeanwhile(NotPossible):
    """Somebody else changed the configuration since it was read."""


class Run(models.Model):
    """What is planned (config), how far it is (counters), and who trains it (lease and fence)."""

    class State(models.TextChoices):
        CREATED = "created", "not started"
        RUNNING = "running", "learning"
        PAUSED = "paused", "paused"
        STOPPED = "stopped", "stopped"
        COMPLETED = "completed", "completed"

    ENDED = (State.STOPPED, State.COMPLETED)

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="runs")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="runs")
    taskset = models.ForeignKey(
        Taskset, null=True, on_delete=models.PROTECT, related_name="+", help_text="NULL where it draws from several: its shares."
    )
    topic = models.OneToOneField(Topic, on_delete=models.PROTECT, related_name="run")
    config = models.JSONField()
    branched_from = models.ForeignKey(
        "runs.WeightVersion", null=True, on_delete=models.SET_NULL, related_name="branches", help_text="What another run left it."
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.CREATED)
    state_since = models.DateTimeField(null=True, help_text="When it came into its state; empty: before this was kept.")
    state_reason = ReasonField(max_length=500, blank=True)
    waiting_on = models.CharField(max_length=200, blank=True, help_text="What the trainer waits for, in words.")

    planned_steps = models.PositiveIntegerField()
    step = models.PositiveIntegerField(default=0, help_text="Committed optimiser updates.")
    published_version = models.PositiveIntegerField(default=0)
    groups_opened = models.PositiveIntegerField(default=0)
    groups_dropped = models.PositiveIntegerField(default=0)
    groups_again = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Groups in committed updates that an earlier one had taken: experience replay."
    )
    experiences_trained = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Experiences that committed updates took, each counted once; experts' stay ready."
    )

    checkpoint_asked_at = models.DateTimeField(null=True, help_text="Somebody wants one after the next update; NULL: nobody.")
    checkpoint_step = models.PositiveIntegerField(null=True, help_text="After which update the newest checkpoint was written.")
    checkpoint_at = models.DateTimeField(null=True)
    reward_now = models.FloatField(
        null=True, editable=False, help_text="Mean reward of the newest update that has one, for sorting; kept by Metric.record."
    )
    tokens_per_s_now = models.FloatField(null=True, editable=False, help_text="Likewise what explorers sampled.")

    tags = ArrayField(models.CharField(max_length=30), default=list, db_default=[], blank=True)
    notes = models.TextField(
        blank=True, default="", db_default="", help_text="In people's words; changed by apps.runs.labelling alone."
    )
    archived_at = models.DateTimeField(null=True, help_text="Since when lists leave it out unless asked.")

    is_evaluation = models.BooleanField(
        default=False, db_default=False, help_text="Asks every task once and learns nothing: the others train."
    )
    evaluates = models.ForeignKey(
        "runs.WeightVersion", null=True, on_delete=models.PROTECT, related_name="evaluations",
        help_text="Whose weights it asks; NULL for a policy's own, and in runs that train.",
    )  # fmt: skip

    evaluation_set = models.CharField(
        max_length=16, blank=True, default="", db_default="",
        help_text="The same for all evaluations that ask the same, whatever weights (apps.runs.evaluation.set_of).",
    )  # fmt: skip

    lease_owner = models.CharField(max_length=80, blank=True, help_text="The worker that trains it.")
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    explored_at = models.DateTimeField(null=True, help_text="When an explorer last served it: the least recent goes first.")
    trained_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["project", "slug"], name="one_run_per_slug"),
            models.CheckConstraint(condition=Q(step__lte=F("planned_steps")), name="no_step_beyond_the_plan"),
            models.CheckConstraint(condition=Q(groups_dropped__lte=F("groups_opened")), name="no_more_dropped_than_opened"),
            models.CheckConstraint(condition=Q(evaluates=None) | Q(is_evaluation=True), name="only_evaluations_evaluate"),
        ]
        # The coordinator's sweep and every station: running runs, least recently served first.
        indexes = [
            models.Index(fields=["state"], name="running_runs", condition=Q(state="running")),
            GinIndex(fields=["tags"], name="tags_of_runs"),
            # Runs that made a scorer: found without reading the configurations of all others.
            models.Index(fields=["project"], name="reward_model_runs", condition=Q(config__algorithm__name="reward_model")),
        ]

    def __str__(self) -> str:
        return self.slug

    @classmethod
    def checked(
        cls, project: Project, plan: RunConfig, owner: User | None = None
    ) -> tuple[Policy, list[Taskset], "models.Model | None"]:
        """What a run of this plan would train, draw from and evaluate; scales, and what keeps callers' words, are made.

        Raises ConfigError when the policy or the taskset is not in the project.
        """
        policy = project.policies.filter(slug=plan.policy).first()
        missing = {} if policy else {"policy": f"no policy {plan.policy!r} in project {project.slug!r}"}
        try:
            tasksets = sources.tasksets_of(project, plan, owner)
        except ConfigError as wrong:
            tasksets, missing = [], missing | wrong.problems
        missing |= absent.missing_reference(project, plan) | absent.missing_replay(project, plan, policy)
        version, unfit = evaluated.version_of(project, plan, policy)
        missing |= unfit
        if policy:
            missing |= pictures.problems_of(plan, policy, tasksets) | adapters.problems_of(plan, policy)
        if not missing:
            missing |= scales.problems_of(plan, tasksets) | limits.problems_of(plan, tasksets)
        if missing:
            raise ConfigError(missing)
        return policy, tasksets, version

    @classmethod
    @unit_of_work
    def create(cls, *, project: Project, slug: str, title: str, plan: RunConfig, owner: User | None = None) -> "Run":
        """A run that is not started. Raises ConfigError as `checked` does."""
        policy, tasksets, version = cls.checked(project, plan, owner)
        topic = Topic.objects.create(project=project, name=f"run:{project.slug}/{slug}")
        run = cls.objects.create(
            project=project, slug=slug, title=title, owner=owner, policy=policy, topic=topic, planned_steps=plan.steps,
            taskset=None if plan.tasksets else tasksets[0], config=plan.model_dump(mode="json"),
            is_evaluation=plan.evaluation is not None, evaluates=version,
            evaluation_set=set_of(plan) if plan.evaluation else "",
        )  # fmt: skip
        run.shares.bulk_create(
            run.shares.model(run=run, taskset=one, share=plan.tasksets[one.slug]) for one in tasksets if plan.tasksets
        )
        versions, weights = run.weight_versions, version or policy
        versions.create(
            version=0,
            state=versions.model.State.PUBLISHED,
            folder=weights.folder,
            fingerprint=weights.fingerprint,
            published_at=Now(),
        )
        if not run.is_evaluation:  # which is started at once, and that is on record
            AuditEntry.record("run created", run.address, owner, project)
        return run

    @property
    def address(self) -> str:
        """Its name wherever runs of several projects meet."""
        return f"run {self.project.slug}/{self.slug}"

    @property
    def settings(self) -> RunConfig:
        return _parsed(json.dumps(self.config))

    @property
    def tasksets(self) -> list[Taskset]:
        """What it draws from, in the order of their slugs."""
        return [self.taskset] if self.taskset_id else [one.taskset for one in self.shared]

    @property
    def shared(self) -> QuerySet:
        """The shares of the draws, in the order of the tasksets' slugs; empty where there is one taskset alone."""
        return self.shares.select_related("taskset").order_by("taskset__slug", "pk")

    @property
    def taskset_ids(self) -> tuple[int, ...]:
        return (self.taskset_id,) if self.taskset_id else tuple(self.shared.values_list("taskset", flat=True))

    @property
    def tasks(self) -> QuerySet[Task]:
        """All that it may draw."""
        return Task.objects.filter(taskset__in=self.taskset_ids)

    @property
    def share_of(self) -> dict[str, int]:
        """{slug: share of the draws} of its tasksets; of a list of runs `with_tasksets` they are looked up together."""
        if self.taskset_id:
            return {self.taskset.slug: 1}
        return {one.taskset.slug: one.share for one in self.shares.all()}

    @property
    def asks_of(self) -> str:
        """Its tasksets in words."""
        return " + ".join(sorted(self.share_of))

    @property
    def is_live(self) -> bool:
        return self.state == self.State.RUNNING

    @property
    def pace(self) -> Pace:
        plan = self.settings
        if plan.evaluation:
            return pace_of_evaluation(self.tasks_asked, self.groups_opened)
        return Pace(
            published_version=self.published_version, groups_opened=self.groups_opened, groups_dropped=self.groups_dropped,
            groups_per_step=plan.groups_per_step, sync_interval=plan.sync_interval, max_staleness=plan.max_staleness,
            planned_steps=self.planned_steps, step=self.step, groups_again=self.groups_again,
            again_per_step=plan.groups_again_per_step, over_rollout=plan.over_rollout,
        )  # fmt: skip

    @property
    def tasks_asked(self) -> int:
        """How many tasks an evaluation asks: all of its set, or the first so many."""
        most = self.settings.evaluation.tasks
        return self.taskset.size if most is None else min(most, self.taskset.size)

    def get_state_display(self) -> str:
        """As people read it; an evaluation that runs learns nothing."""
        is_asking = self.is_evaluation and self.state == self.State.RUNNING
        return "evaluating" if is_asking else self.State(self.state).label

    @classmethod
    def locked(cls, pk: int, *related: str) -> "Run":
        """Lock the run's row until the transaction ends; with its `related` rows, not locked."""
        return lock_one(cls.objects.filter(pk=pk).select_related(*related))

    # -- acts of people ---------------------------------------------------------------------------------------------

    def start(self, by: User | None = None, reason: str = "") -> None:
        """It leaves the archive: what spends money stays in sight."""
        self._move(
            (self.State.CREATED,), self.State.RUNNING, by=by, reason=reason, act="started", started_at=Now(), archived_at=None
        )

    def pause(self, by: User | None = None, reason: str = "") -> None:
        """Stop opening groups and training; requests in flight finish and are kept."""
        self._move((self.State.RUNNING,), self.State.PAUSED, by=by, reason=reason or "paused by hand")

    def resume(self, by: User | None = None, reason: str = "") -> None:
        self._move((self.State.PAUSED,), self.State.RUNNING, by=by, reason=reason, act="resumed")

    def stop(self, by: User | None = None, reason: str = "") -> None:
        self._move(
            (self.State.CREATED, self.State.RUNNING, self.State.PAUSED),
            self.State.STOPPED,
            by=by,
            reason=reason or "stopped by hand",
            ended_at=Now(),
        )

    def complete(self) -> None:
        self._move((self.State.RUNNING, self.State.PAUSED), self.State.COMPLETED, ended_at=Now())

    @retrying
    def ask_checkpoint(self, by: User | None = None, reason: str = "") -> None:
        """Have the trainer write a checkpoint after its next update, whenever that comes."""
        with transaction.atomic():
            live = Run.objects.filter(pk=self.pk, state__in=(self.State.RUNNING, self.State.PAUSED))
            asked = live.update(checkpoint_asked_at=Now())
            self.refresh_from_db()
            if not asked:
                raise NotPossible(f"run {self.slug} is {self.get_state_display()}; only one that learns or pauses has a checkpoint")
            self.topic.record("checkpoint_asked", reason=reason, by=str(by or ""))
            AuditEntry.record("checkpoint asked", self.address, by, self.project, reason=reason)

    def note_checkpoint(self, step: int, asked_at: datetime | None) -> None:
        """Inside `fenced`: it lies on disk, sealed. `asked_at`: the wish that it answers; a newer one waits for the next."""
        Run.objects.filter(pk=self.pk).update(checkpoint_step=step, checkpoint_at=Now())
        if asked_at:
            Run.objects.filter(pk=self.pk, checkpoint_asked_at=asked_at).update(checkpoint_asked_at=None)
        self.topic.record("checkpoint_written", step=step, asked=bool(asked_at))

    @retrying
    def _move(self, allowed: tuple, to: str, *, by: User | None = None, reason: str = "", act: str = "", **stamps: object) -> None:
        with transaction.atomic():
            changed = Run.objects.filter(pk=self.pk, state__in=allowed).update(
                state=to, state_since=Now(), state_reason="" if to == self.State.RUNNING else reason, waiting_on="", **stamps
            )
            self.refresh_from_db()
            if not changed:
                words = " or ".join(self.State(state).label for state in allowed)
                raise NotPossible(f"run {self.slug} is {self.get_state_display()}; this needs it to be {words}")
            self.topic.record("state_changed", state=to, reason=reason, by=str(by or ""))
            AuditEntry.record(f"run {act or self.State(to).name.lower()}", self.address, by, self.project, reason=reason)
            transaction.on_commit(lambda: bells.ring(*bells.STATIONS), robust=True)

    @retrying
    def change_config(self, by: User | None, *, reason: str = "", unless_changed: bool = False, **fields: object) -> bool:
        """Replace fields, and fields of sections (given as dicts); the event keeps before, after, who and why.

        False, and nothing is on record, where all of them stand so already. `unless_changed`: raise ChangedMeanwhile where the
        configuration is not any more what this object has read. Raises ConfigError for a wrong value, and for a field that a run
        which has begun cannot take up any more.
        """
        with transaction.atomic():
            locked = Run.locked(self.pk)
            if unless_changed and locked.config != self.config:
                raise ChangedMeanwhile(f"the configuration of {self.slug} has changed")
            if locked.state in self.ENDED:
                ended = locked.get_state_display()
                raise ConfigError(
                    {"configuration": f"run {self.slug} is {ended}; create another one with the changed configuration"}
                )
            plan = changed(locked.settings, fields, has_begun=locked.state != self.State.CREATED)
            problems = pictures.problems_of(plan, locked.policy, locked.tasksets)
            problems |= adapters.problems_of(plan, locked.policy)
            problems = problems or scales.problems_of(plan, locked.tasksets)
            if not problems and locked.state == self.State.CREATED:  # what they go by is fixed once it has begun
                problems = limits.problems_of(plan, locked.tasksets)
            if problems:
                raise ConfigError(problems)
            before, after = locked.settings.model_dump(mode="json"), plan.model_dump(mode="json")
            if before == after:
                return False
            Run.objects.filter(pk=self.pk).update(config=after, planned_steps=plan.steps)
            turned = {"before": {name: before[name] for name in fields}, "after": {name: after[name] for name in fields}}
            self.topic.record("config_changed", **turned, by=str(by or ""), reason=reason)
            why = {"reason": reason} if reason else {}
            AuditEntry.record("run configuration changed", self.address, by, self.project, **turned, **why)
        self.refresh_from_db()
        return True

    # -- the trainer's lease ----------------------------------------------------------------------------------------

    @retrying
    def claim_trainer(self, owner: str, seconds: float) -> bool:
        """Become the one trainer of this run until the lease ends on the database's clock; a new owner gets a new fence."""
        free = Q(lease_until=None) | Q(lease_until__lt=Now())
        ordered = Worker.objects.told_to_take_nothing(owner)
        with transaction.atomic():
            taken = (
                Run.objects.filter(Q(pk=self.pk) & free)
                .exclude(Exists(ordered))
                .update(lease_owner=owner, lease_until=after(seconds), fence=F("fence") + 1)
            )
        self.refresh_from_db()
        return bool(taken)

    def keep_trainer(self, fence: int, seconds: float) -> bool:
        """Extend the lease; False when another worker holds the run by now."""
        return bool(Run.objects.filter(pk=self.pk, fence=fence, lease_until__gte=Now()).update(lease_until=after(seconds)))

    def release_trainer(self, fence: int) -> None:
        Run.objects.filter(pk=self.pk, fence=fence).update(lease_owner="", lease_until=None)

    @contextmanager
    def fenced(self, fence: int) -> Iterator["Run"]:
        """A transaction in which the trainer's fence still holds; the run's row is locked. Raises StaleFence."""
        with transaction.atomic():
            run = lock_first(Run.objects.filter(pk=self.pk, fence=fence, lease_until__gte=Now()))
            if run is None:
                raise StaleFence(f"run {self.slug}: fence {fence} is no longer the trainer's")
            yield run


def after(seconds: float) -> models.expressions.CombinedExpression:
    """That many seconds from now, on the database's clock (worker clocks differ and jump)."""
    return Now() + timedelta(seconds=seconds)
