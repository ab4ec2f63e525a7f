"""A run: one training of one policy, from its plan to its end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models, transaction
from django.db.models import Exists, F, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_one, retrying, unit_of_work
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.public_text import ReasonField
from apps.leases.lease import Claim, StaleFence, WorkerLease
from apps.policies.models import Policy
from apps.runs import (
    adapters,
    evaluated_version,
    limits,
    missing_references,
    pictures,
    scales,
    sources,
)
from apps.runs.admission import Pace, pace_of_evaluation
from apps.runs.changing import changed
from apps.runs.config import ConfigError, RunConfig
from apps.runs.evaluation import evaluation_key
from apps.runs.models.run_lists import RunQuerySet, RunState, lock_run, lock_under_fence
from apps.runs.models.worker import Worker
from apps.runs.parsing import parse_config
from apps.runs.refusals import processes as refused_processes
from apps.streaming import worker_notifications
from apps.streaming.models import Topic
from apps.tasksets.models import Task, Taskset


@lru_cache(maxsize=512)
def _parsed(config: str) -> RunConfig:
    """Parse a configuration, with a cache: workers ask many times a second.

    Parsing takes a millisecond, and a RunConfig is frozen.
    """
    return parse_config(json.loads(config))


class NotPossible(Exception):
    """Raised if the run's state does not allow an act; the message says which states do."""


class ChangedMeanwhile(NotPossible):
    """Raised if somebody else changed the configuration since it was read."""


class Run(WorkerLease):
    """Training job: its plan (config), progress (counters) and trainer (which holds the lease)."""

    State = RunState
    ENDED = (State.STOPPED, State.COMPLETED, State.DELETING)

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="runs"
    )
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="runs")
    taskset = models.ForeignKey(
        Taskset,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="NULL if the run samples from several tasksets (see shares).",
    )
    topic = models.OneToOneField(Topic, on_delete=models.PROTECT, related_name="run")
    config = models.JSONField()
    branched_from = models.ForeignKey(
        "runs.WeightVersion",
        null=True,
        on_delete=models.SET_NULL,
        related_name="branches",
        help_text="State inherited from another run.",
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.CREATED)
    state_since = models.DateTimeField(
        null=True, help_text="When the run entered its state; NULL if unknown."
    )
    state_reason = ReasonField(max_length=500, blank=True)
    waiting_on = models.CharField(
        max_length=200,
        blank=True,
        help_text="What the trainer waits for.",
    )

    planned_steps = models.PositiveIntegerField()
    step = models.PositiveIntegerField(default=0, help_text="Number of committed optimizer steps.")
    published_version = models.PositiveIntegerField(default=0)
    groups_opened = models.PositiveIntegerField(default=0)
    groups_dropped = models.PositiveIntegerField(default=0)
    groups_again = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text=(
            "Number of groups in committed steps that an earlier step had used (experience replay)."
        ),
    )
    experiences_trained = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text=(
            "Number of distinct experiences used by committed steps; expert data stays ready."
        ),
    )

    checkpoint_requested_at = models.DateTimeField(
        null=True, help_text="A checkpoint was requested after the next step; NULL if not."
    )
    checkpoint_step = models.PositiveIntegerField(
        null=True, help_text="Step of the latest checkpoint."
    )
    checkpoint_at = models.DateTimeField(null=True)
    reward_now = models.FloatField(
        null=True,
        editable=False,
        help_text=(
            "Mean reward of the latest step that has one, for sorting. Written by Metric.record."
        ),
    )
    tokens_per_s_now = models.FloatField(
        null=True,
        editable=False,
        help_text="Tokens per second sampled by explorers, for sorting.",
    )

    tags = ArrayField(models.CharField(max_length=30), default=list, db_default=[], blank=True)
    notes = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="Free text by users. Changed only by apps.runs.labelling.",
    )
    archived_at = models.DateTimeField(
        null=True, help_text="When the run was archived. Lists hide archived runs by default."
    )

    is_evaluation = models.BooleanField(
        default=False,
        db_default=False,
        help_text="An evaluation runs every task and does not train; other runs train.",
    )
    evaluates = models.ForeignKey(
        "runs.WeightVersion",
        null=True,
        on_delete=models.PROTECT,
        related_name="evaluations",
        help_text=(
            "Weight version to evaluate; NULL for the policy's own weights and for training runs."
        ),
    )

    evaluation_set = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text=(
            "Same digest for all evaluations with the same tasks and settings "
            "(apps.runs.evaluation.evaluation_key)."
        ),
    )

    explored_at = models.DateTimeField(
        null=True,
        help_text=(
            "When an explorer last served the run. The least recently served run comes first."
        ),
    )
    trained_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects: ClassVar = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["project", "slug"], name="one_run_per_slug"),
            models.CheckConstraint(
                condition=Q(step__lte=F("planned_steps")), name="no_step_beyond_the_plan"
            ),
            models.CheckConstraint(
                condition=Q(groups_dropped__lte=F("groups_opened")),
                name="no_more_dropped_than_opened",
            ),
            models.CheckConstraint(
                condition=Q(evaluates=None) | Q(is_evaluation=True),
                name="only_evaluations_evaluate",
            ),
        ]
        # The coordinator's sweep and every station: running runs, least recently served first.
        indexes = [
            models.Index(fields=["state"], name="running_runs", condition=Q(state="running")),
            GinIndex(fields=["tags"], name="tags_of_runs"),
            # Runs that made a scorer: found without reading the configurations of all others.
            models.Index(
                fields=["project"],
                name="reward_model_runs",
                condition=Q(config__algorithm__name="reward_model"),
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    @classmethod
    def checked(
        cls, project: Project, plan: RunConfig, owner: User | None = None
    ) -> tuple[Policy, list[Taskset], evaluated_version.Weights | None]:
        """Return what a run of this plan would train, sample from and evaluate.

        Difficulty scales, and the taskset that stores callers' prompts, are created if needed.
        Raises ConfigError when the policy or the taskset is not in the project.
        """
        policy = project.policies.filter(slug=plan.policy).first()
        missing = (
            {} if policy else {"policy": f"no policy {plan.policy!r} in project {project.slug!r}"}
        )
        try:
            tasksets = sources.load_tasksets(project, plan, owner)
        except ConfigError as wrong:
            tasksets = []
            missing = missing | wrong.problems
        if project.archived_at:
            missing["project"] = f"{project.slug!r} is archived; restore it first"
        missing |= missing_references.missing_reference(
            project, plan
        ) | missing_references.missing_replay(project, plan, policy)
        version, unfit = evaluated_version.find_evaluated_version(project, plan, policy)
        missing |= unfit
        if policy:
            missing |= pictures.find_picture_problems(
                plan, policy, tasksets
            ) | adapters.find_lora_problems(plan, policy)
            missing |= refused_processes.find_process_problems(plan, policy)
        if not missing:
            missing |= scales.find_scale_problems(plan, tasksets) | limits.find_limit_problems(
                plan, tasksets
            )
        if policy is None or missing:
            raise ConfigError(missing)
        return policy, tasksets, version

    @classmethod
    @unit_of_work
    def create(
        cls, *, project: Project, slug: str, title: str, plan: RunConfig, owner: User | None = None
    ) -> "Run":
        """Return a run that is not started. Raises ConfigError as `checked` does."""
        policy, tasksets, version = cls.checked(project, plan, owner)
        topic = Topic.objects.create(project=project, name=f"run:{project.slug}/{slug}")
        run = cls.objects.create(
            project=project,
            slug=slug,
            title=title,
            owner=owner,
            policy=policy,
            topic=topic,
            planned_steps=plan.steps,
            taskset=None if plan.tasksets else tasksets[0],
            config=plan.model_dump(mode="json"),
            is_evaluation=plan.evaluation is not None,
            evaluates_id=version.pk if version else None,
            evaluation_set=evaluation_key(plan) if plan.evaluation else "",
        )
        run.shares.bulk_create(
            run.shares.model(run=run, taskset=taskset, share=plan.tasksets[taskset.slug])
            for taskset in tasksets
            if plan.tasksets
        )
        versions = run.weight_versions
        weights: evaluated_version.Weights = version or policy
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
        """Return the run's name among the runs of several projects."""
        return f"run {self.project.slug}/{self.slug}"

    @property
    def settings(self) -> RunConfig:
        return _parsed(json.dumps(self.config))

    @property
    def tasksets(self) -> list[Taskset]:
        """Return the tasksets that the run samples from, in the order of their slugs."""
        return [self.taskset] if self.taskset else [share.taskset for share in self.shared]

    @property
    def shared(self) -> QuerySet[Any]:  # of TasksetShare, whose file imports this one
        """Return the shares of the draws, in the order of the tasksets' slugs.

        Empty where there is one taskset alone.
        """
        return self.shares.select_related("taskset").order_by("taskset__slug", "pk")

    @property
    def taskset_ids(self) -> tuple[int, ...]:
        return (
            (self.taskset_id,)
            if self.taskset_id
            else tuple(self.shared.values_list("taskset", flat=True))
        )

    @property
    def tasks(self) -> QuerySet[Task]:
        """Return all that it may draw."""
        return Task.objects.filter(taskset__in=self.taskset_ids)

    @property
    def share_of(self) -> dict[str, int]:
        """Return {slug: share of the draws} of the run's tasksets.

        For a list of runs, load them `with_tasksets`, so that all tasksets come in one query.
        """
        if self.taskset:
            return {self.taskset.slug: 1}
        return {share.taskset.slug: share.share for share in self.shares.all()}

    @property
    def asks_of(self) -> str:
        """Return the slugs of the run's tasksets in words."""
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
            published_version=self.published_version,
            groups_opened=self.groups_opened,
            groups_dropped=self.groups_dropped,
            groups_per_step=plan.groups_per_step,
            sync_interval=plan.sync_interval,
            max_staleness=plan.max_staleness,
            planned_steps=self.planned_steps,
            step=self.step,
            groups_again=self.groups_again,
            again_per_step=plan.groups_again_per_step,
            over_rollout=plan.over_rollout,
        )

    @property
    def tasks_asked(self) -> int:
        """Return how many tasks an evaluation asks: all of its set, or the first ones."""
        evaluation = self.settings.evaluation
        assert evaluation is not None and self.taskset is not None  # only evaluations ask
        task_limit = evaluation.tasks
        return self.taskset.size if task_limit is None else min(task_limit, self.taskset.size)

    # The plugin of django-stubs adds the method that this one stands in for.
    def get_state_display(self) -> str:  # type: ignore[no-redef]
        """Return the state as pages show it; "evaluating" for a running evaluation."""
        is_asking = self.is_evaluation and self.state == self.State.RUNNING
        return "evaluating" if is_asking else self.State(self.state).label

    @classmethod
    def locked(cls, pk: int, *related: str) -> "Run":
        """Lock the run's row until the transaction ends; with its `related` rows, not locked."""
        runs: list[Run] = lock_run(related)(pk)
        if not runs:
            raise cls.DoesNotExist(f"run {pk} does not exist")
        return runs[0]

    # -- actions of people

    def start(self, by: User | None = None, reason: str = "") -> None:
        """Start the run, and take it out of the archive: runs that cost money must stay visible."""
        self._move(
            (self.State.CREATED,),
            self.State.RUNNING,
            by=by,
            reason=reason,
            action="started",
            started_at=Now(),
            archived_at=None,
        )

    def pause(self, by: User | None = None, reason: str = "") -> None:
        """Stop opening groups and training; requests in flight finish and are kept."""
        self._move(
            (self.State.RUNNING,), self.State.PAUSED, by=by, reason=reason or "paused by hand"
        )

    def resume(self, by: User | None = None, reason: str = "") -> None:
        self._move((self.State.PAUSED,), self.State.RUNNING, by=by, reason=reason, action="resumed")

    def stop(self, by: User | None = None, reason: str = "") -> None:
        self._move(
            (self.State.CREATED, self.State.RUNNING, self.State.PAUSED),
            self.State.STOPPED,
            by=by,
            reason=reason or "stopped by hand",
            ended_at=Now(),
        )

    def begin_deletion(self, by: User | None = None) -> None:
        """Put the run out of reach; `apps.runs.deleting` checks before whether it may go."""
        self._move(
            (self.State.CREATED, self.State.STOPPED, self.State.COMPLETED),
            self.State.DELETING,
            by=by,
            action="deletion ordered",
        )

    def complete(self) -> None:
        self._move((self.State.RUNNING, self.State.PAUSED), self.State.COMPLETED, ended_at=Now())

    @retrying
    def ask_checkpoint(self, by: User | None = None, reason: str = "") -> None:
        """Have the trainer write a checkpoint after its next step, whenever that comes."""
        with transaction.atomic():
            live = Run.objects.filter(pk=self.pk, state__in=(self.State.RUNNING, self.State.PAUSED))
            updated = live.update(checkpoint_requested_at=Now())
            self.refresh_from_db()
            if not updated:
                raise NotPossible(
                    f"run {self.slug} is {self.get_state_display()}; only a running or pausing run "
                    "can write a checkpoint"
                )
            self.topic.record("checkpoint_asked", reason=reason, by=str(by or ""))
            AuditEntry.record("checkpoint requested", self.address, by, self.project, reason=reason)

    def note_checkpoint(self, step: int, requested_at: datetime | None) -> None:
        """Record a sealed checkpoint. Call it within `fenced`.

        `requested_at` is the time of the request that the checkpoint answers. A newer request waits
        for the next checkpoint.
        """
        Run.objects.filter(pk=self.pk).update(checkpoint_step=step, checkpoint_at=Now())
        if requested_at:
            Run.objects.filter(pk=self.pk, checkpoint_requested_at=requested_at).update(
                checkpoint_requested_at=None
            )
        self.topic.record("checkpoint_written", step=step, requested=bool(requested_at))

    @retrying
    def _move(
        self,
        allowed: tuple[str, ...],
        to: str,
        *,
        by: User | None = None,
        reason: str = "",
        action: str = "",
        **stamps: object,
    ) -> None:
        with transaction.atomic():
            changed = Run.objects.filter(pk=self.pk, state__in=allowed).update(
                state=to,
                state_since=Now(),
                state_reason="" if to == self.State.RUNNING else reason,
                waiting_on="",
                **stamps,
            )
            self.refresh_from_db()
            if not changed:
                words = " or ".join(self.State(state).label for state in allowed)
                raise NotPossible(
                    f"run {self.slug} is {self.get_state_display()}; it must be {words}"
                )
            if to == self.State.RUNNING:
                self._require_current_project()
            self.topic.record("state_changed", state=to, reason=reason, by=str(by or ""))
            AuditEntry.record(
                f"run {action or self.State(to).name.lower()}",
                self.address,
                by,
                self.project,
                reason=reason,
            )
            transaction.on_commit(
                lambda: worker_notifications.notify_workers(*worker_notifications.STATIONS),
                robust=True,
            )

    def _require_current_project(self) -> None:
        """Lock the project until the transaction ends. Raise NotPossible if it is archived."""
        if lock_one(Project.objects.filter(pk=self.project_id)).archived_at:
            raise NotPossible(
                f"run {self.slug} belongs to an archived project; restore the project first"
            )

    @retrying
    def change_config(
        self, by: User | None, *, reason: str = "", unless_changed: bool = False, **fields: object
    ) -> bool:
        """Replace fields, and fields of sections (given as dicts), and record an event.

        The event has the values before and after, who changed them and why. Return False, and
        record nothing, when all fields have these values already. With `unless_changed`, raise
        ChangedMeanwhile if the configuration is no longer what this object has read. Raise
        ConfigError for a wrong value, and for a field that cannot change after a run has begun.
        """
        with transaction.atomic():
            locked = Run.locked(self.pk)
            if unless_changed and locked.config != self.config:
                raise ChangedMeanwhile(f"the configuration of {self.slug} has changed")
            if locked.state in self.ENDED:
                ended = locked.get_state_display()
                advice = "create another run with the changed configuration"
                raise ConfigError({"configuration": f"run {self.slug} is {ended}; {advice}"})
            plan = changed(locked.settings, fields, has_begun=locked.state != self.State.CREATED)
            if problems := locked._find_problems(plan):
                raise ConfigError(problems)
            before = locked.settings.model_dump(mode="json")
            after = plan.model_dump(mode="json")
            if before == after:
                return False
            Run.objects.filter(pk=self.pk).update(config=after, planned_steps=plan.steps)
            turned = {
                "before": {name: before[name] for name in fields},
                "after": {name: after[name] for name in fields},
            }
            self.topic.record("config_changed", **turned, by=str(by or ""), reason=reason)
            why = {"reason": reason} if reason else {}
            AuditEntry.record(
                "run configuration changed", self.address, by, self.project, **turned, **why
            )
        self.refresh_from_db()
        return True

    def _find_problems(self, plan: RunConfig) -> dict[str, str]:
        """Return the problems of a changed configuration with the run's policy and tasksets."""
        problems = pictures.find_picture_problems(plan, self.policy, self.tasksets)
        problems |= adapters.find_lora_problems(plan, self.policy)
        problems |= refused_processes.find_process_problems(plan, self.policy)
        problems = problems or scales.find_scale_problems(plan, self.tasksets)
        if problems or self.state != self.State.CREATED:  # limits are fixed once it has begun
            return problems
        return limits.find_limit_problems(plan, self.tasksets)

    # -- the trainer's lease; `fence` is that of its claim: the object may have been read again

    @retrying
    def claim_trainer(self, owner: str, seconds: float) -> bool:
        """Claim the run for this trainer until the lease ends, and return whether it was free.

        The claim waits while somebody else changes the run.
        """
        run = Run.objects.filter(pk=self.pk).exclude(
            Exists(Worker.objects.told_to_take_nothing(owner))
        )
        claimed = run.claim_rows(owner, seconds, waits=True)
        self.refresh_from_db()
        return bool(claimed)

    def renew_trainer(self, fence: int, seconds: float) -> bool:
        """Extend the lease; False when another worker holds the run by now."""
        return bool(Run.objects.renew([Claim(self.pk, fence)], seconds))

    def release_trainer(self, fence: int) -> None:
        Run.objects.release([Claim(self.pk, fence)])

    @contextmanager
    def fenced(self, fence: int) -> Iterator["Run"]:
        """Open a transaction in which the trainer's fence still holds and the run's row is locked.

        Raises StaleFence.
        """
        with transaction.atomic():
            runs = lock_under_fence(self.pk, fence)
            if not runs:
                raise StaleFence(f"run {self.slug}: fence {fence} is no longer the trainer's")
            yield runs[0]
