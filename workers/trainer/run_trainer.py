"""Train one run: hold its lease and its resident trainer, and make one optimizer step per call.

A crash at any point of a step does no harm, because of the order within it. The batch is fixed in
the database, the step is made, and the weights are sealed on disk. Then one transaction under the
fence records all of it. Weights are published only after they were read back from disk. The next
trainer of the run resumes from the newest intact checkpoint and repeats the recorded steps after
it.
"""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

import structlog
import torch
from django.conf import settings
from django.db import Error
from django.db.models.functions import Now
from safetensors import SafetensorError

from apps.accounts.locking import retrying
from apps.buffer.models import Experience, batch_of, commit_step, plan_step
from apps.evaluation.scheduled import evaluate_due_versions
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.batching import treat
from apps.pipelines.crediting import credit_batch
from apps.policies.manifest import (
    DamagedWeights,
    Manifest,
    ShownPicture,
    require_like,
    verify_folder,
)
from apps.runs.costs import CPU, GPU, cost_metrics
from apps.runs.models import Metric, NotPossible, Run, TrainStep, Usage, WeightVersion
from workers import stop_request
from workers.pictures import load_pngs
from workers.trainer import checkpoint, experts, metrics, weight_store
from workers.trainer.collate import Row
from workers.trainer.host import TrainerHost
from workers.trainer.lessons.rows import Lesson
from workers.trainer.report import StepReport
from workers.trainer.runs_to_train import UNOFFERED
from workers.trainer.spec import Knobs
from workers.weight_movement import Movement, movement

log = structlog.get_logger(__name__)
CAUSE_SECONDS = 1.0
NONE: Mapping[str, bytes] = MappingProxyType({})


Item = TypeVar("Item")


class RunTrainer(ABC, Generic[Item]):
    """Trainer of one run, which learns from items of one kind.

    `fence` is the run's fence when it was claimed. Writes under an older fence are refused.
    """

    def __init__(self, run: Run, fence: int) -> None:
        self.run = run
        self.fence = fence
        self.host = self._host()
        self.taken_at = self.turned_at = self.used_at = time.monotonic()
        self.waited = self.idle_since = self.cause_at = 0.0
        self.idle = False
        # First of the groups that close after the last step, and after the one being committed.
        self.first_open = self.next_open = metrics.first_open(run) if run.step else 0
        self.began = (
            time.monotonic(),
            time.process_time(),
        )  # start of the current step, to measure what it uses
        self.starved = dict.fromkeys(
            metrics.STAGES, 0.0
        )  # seconds of waiting, by the stage that was waited for

    def is_built_as(self, run: Run) -> bool:
        """Tell whether the trainer has the processes that the run's configuration now asks for."""
        trainer = run.settings.trainer
        spec = self.host.spec
        return (spec.processes, spec.sharding) == (trainer.processes, trainer.sharding)

    # -- taking over

    def open(self) -> None:
        """Bring the trainer to the run's last committed step, and publish its weights."""
        weight_store.remove_orphan_folders(self.run)
        newest, damage = checkpoint.newest_intact(self.host.spec.output, max_step=self.run.step)
        for words in damage:
            log.error("checkpoint_damaged", run=self.run, reason=words)
            self.run.topic.record("checkpoint_damaged", reason=words)
        checkpoint.discard_uncommitted(self.host.spec.output, self.run.step)
        self.host.start(newest)
        self._replay()
        self.host.recorder.skips_in_a_row = metrics.skips_in_a_row(self.run)
        self._offer()
        self.turned_at = self.used_at = time.monotonic()

    def _replay(self) -> None:
        """Repeat the committed steps after the checkpoint from their recorded batches.

        No row of the database is changed.
        """
        missing = self.run.step - self.host.step
        if not missing:
            return
        log.info("replaying_steps", run=self.run, from_step=self.host.step, to_step=self.run.step)
        self._record_waiting(f"{missing} recorded steps to be repeated after a restart")
        for step in self.run.steps.filter(
            state=TrainStep.State.COMMITTED, number__gt=self.host.step
        ).order_by("number"):
            self._update(step, self._batch(step))
        self._record_waiting("")

    # -- one step

    def step(self) -> bool:
        """Make the run's next step if its batch is ready, and return whether one was made.

        Raises StaleFence, and Interrupted when the step is no longer wanted.
        """
        self.run.refresh_from_db()
        try:
            step = self._plan()
        except OperatorFailed as failure:
            self._pause(f"the pipeline failed on the batch of step {self.run.step + 1}: {failure}")
            return False
        if step is None:
            return self.wait()
        self._note_wait()
        self._record_waiting("")
        self.began = time.monotonic(), time.process_time()
        batch = self._batch(step)
        report = self._update(step, batch, self.run.checkpoint_requested_at is not None)
        staged = self._stage(step) if self._is_due(step) else None
        self._commit(step, batch, report, staged)
        self._offer()
        if report.blocked:
            self._pause(report.blocked)
        self._complete()
        self.used_at = time.monotonic()
        return True

    def _update(self, step: TrainStep, batch: Sequence[Item], is_asked: bool = False) -> StepReport:
        """Compute a planned step, with the knobs that were recorded with the step.

        A change of the configuration since the step was planned does not affect it.
        """
        is_due = step.number % self.run.settings.checkpoints.every == 0
        knobs = self._knobs(step)
        rows = self._rows(batch)
        saves = is_asked or is_due
        return self.host.update(rows, step.skipped, saves, knobs, is_unwanted=self._is_unwanted)

    def _knobs(self, step: TrainStep) -> Knobs:
        return Knobs.recorded(step.knobs)

    def _is_unwanted(self) -> bool:
        """Tell whether this worker was asked to stop, or the run was stopped, meanwhile."""
        if stop_request.is_asked():
            return True
        try:
            return Run.objects.filter(pk=self.run.pk, state__in=Run.ENDED).exists()
        except Error:  # database away: the commit waits for it, or finds the lease lost
            return False

    def _is_due(self, step: TrainStep) -> bool:
        """Tell whether to publish: every `sync_interval` steps, and at the end of the plan."""
        return (
            step.number % self.run.settings.sync_interval == 0
            or step.number == self.run.planned_steps
        )

    def _stage(self, step: TrainStep) -> WeightVersion:
        """Seal the weights on disk; the row is written with the commit."""
        parent = self.run.weight_versions.order_by("-version").first()
        assert parent is not None  # every run has its base version
        version = WeightVersion(
            run=self.run, version=parent.version + 1, parent=parent, step=step.number
        )
        self._write(version)
        return version

    def _write(self, version: WeightVersion) -> None:
        folder = weight_store.weights_folder(self.run, version.version, self.fence)
        shutil.rmtree(folder, ignore_errors=True)
        assert version.parent is not None  # only the base has none
        manifest = self.host.publish(folder, version.version, version.parent.version)
        version.folder, version.fingerprint, version.bytes = (
            str(folder),
            manifest.fingerprint,
            _size(manifest),
        )
        version.movement = self._movement(version)

    def _movement(self, version: WeightVersion) -> Movement | None:
        """Return how far the version's weights moved from its parent's, or None if it is unknown.

        The parent's folder may be deleted or damaged; a missing metric is no reason to stop the
        run.
        """
        assert version.parent is not None
        try:
            return movement(Path(version.folder), Path(version.parent.folder))
        except (DamagedWeights, SafetensorError, OSError, KeyError) as why:
            log.warning(
                "weight_change_not_measured",
                run=self.run,
                weight_version=version.version,
                reason=str(why),
            )
            return None

    @retrying
    def _commit(
        self,
        step: TrainStep,
        batch: Sequence[Item],
        report: StepReport,
        staged: WeightVersion | None,
    ) -> None:
        """Record in one transaction, under the fence, that the step happened.

        Raises StaleFence and writes nothing.
        """
        seconds = time.monotonic() - self.turned_at
        with self.run.fenced(self.fence) as run:
            values = {**report.metrics, **self._metrics(run, step, batch, seconds)}
            values["skipped"] = float(bool(report.skipped))
            Usage.add(run.pk, run.lease_owner, self._used())
            values |= cost_metrics(run)
            commit_step(run, step, self.fence, skipped=report.skipped)
            Metric.record(run, step.number, values)
            if report.checkpoint:
                run.note_checkpoint(step.number, self.run.checkpoint_requested_at)
            if staged is not None:
                staged.save()
            Run.objects.filter(pk=run.pk).update(trained_at=Now(), waiting_on="")
            run.topic.record(
                "step_committed",
                step=step.number,
                reward=values.get("reward_mean"),
                skipped=report.skipped,
            )
        self.first_open = self.next_open  # not before: the transaction may have been repeated
        self.turned_at = time.monotonic()
        self.waited = 0.0
        self.idle = False
        self.starved = dict.fromkeys(metrics.STAGES, 0.0)
        log.info(
            "step_committed",
            run=self.run,
            step=step.number,
            weight_version=step.version,
            rows=len(batch),
            loss=values.get("loss"),
            seconds=round(seconds, 3),
        )

    def _used(self) -> dict[str, float]:
        """Return the seconds of GPUs (if there are any) and processors since the step began.

        Processor time is the sum over all threads and ranks.
        """
        wall, processor = self.began
        used = {f"trainer.{CPU}": time.process_time() - processor + self.host.seconds_of_others}
        if torch.cuda.is_available():
            used[f"trainer.{GPU}"] = (time.monotonic() - wall) * self.host.spec.processes
        return used

    # -- what differs by what a run learns from

    def _host(self) -> TrainerHost:
        return TrainerHost(weight_store.build_trainer_spec(self.run))

    @abstractmethod
    def _plan(self) -> TrainStep | None:
        """Return the next step with its batch fixed, or None if something is missing."""

    @abstractmethod
    def _batch(self, step: TrainStep) -> Sequence[Item]:
        """Return what this step learns from."""

    @abstractmethod
    def _rows(self, batch: Sequence[Item]) -> Sequence[Row | Lesson]:
        """Return the training rows of the batch."""

    @abstractmethod
    def _metrics(
        self, run: Run, step: TrainStep, batch: Sequence[Item], seconds: float
    ) -> dict[str, float]:
        """Return the metrics of the batch and of the waiting for it."""

    @abstractmethod
    def _cause(self) -> str:
        """Return what the trainer waits for, in words."""

    # -- weights

    def _offer(self) -> None:
        """Publish the sealed weights after reading them back from disk.

        Damaged weights are written again once.
        """
        versions = self.run.weight_versions.filter(
            version__gt=self.run.published_version, state__in=UNOFFERED
        ).order_by("version")
        for version in versions.select_related("parent"):
            if version.state == WeightVersion.State.REFUSED or not self._is_intact(version):
                self._write_again(version)
            self._publish(version)
            evaluate_due_versions(
                self.run
            )  # before its folder is deleted; the sweep does the same if this process dies here
            weight_store.delete_retired_folders(self.run, self.fence)
        self.run.refresh_from_db()

    @retrying
    def _publish(self, version: WeightVersion) -> None:
        with self.run.fenced(self.fence) as run:
            version.offer(run)

    def _is_intact(self, version: WeightVersion) -> bool:
        try:
            return self._verified(version) == version.fingerprint
        except (DamagedWeights, OSError) as damage:
            log.error(
                "staged_weights_damaged",
                run=self.run,
                weight_version=version.version,
                reason=str(damage),
            )
            return False

    def _verified(self, version: WeightVersion) -> str:
        """Return the fingerprint of the files on disk, reading every byte.

        Raises DamagedWeights, OSError.
        """
        manifest = verify_folder(Path(version.folder), fingerprint=version.fingerprint)
        require_like(manifest.tensors, self.host.layout())
        return manifest.fingerprint

    def _write_again(self, version: WeightVersion) -> None:
        """Write a damaged version again, if the trainer still has its weights in memory.

        Only the newest version's weights are in memory. Raises DamagedWeights if this fails too.
        """
        if version.step == self.host.step:
            self._write(version)
        try:
            self._verified(version)
        except DamagedWeights as damage:
            with self.run.fenced(self.fence):
                version.refuse(str(damage))
            raise
        with self.run.fenced(self.fence):
            version.state = WeightVersion.State.STAGED
            version.reason = ""
            version.save()

    # -- waiting and ending

    def wait(self) -> bool:
        """Complete the run if its plan is done; otherwise record what it waits for."""
        now = time.monotonic()
        is_looked_at = now - self.cause_at > CAUSE_SECONDS
        if is_looked_at:
            self.run.refresh_from_db()
        self._complete()
        if not self.idle:
            self.idle, self.idle_since, self.looked_at, self.awaited = (
                True,
                now,
                now,
                metrics.starving(self.run),
            )
        if not self.run.is_live:
            self.looked_at = now  # a paused run waits for no worker
        elif is_looked_at:
            self._record_waiting(self._cause())
            self._note_starving(now)
            self.cause_at, self.awaited = now, metrics.starving(self.run)
        return False

    def wait_for(self, cause: str) -> bool:
        """Postpone the next step and record the reason. Nothing is planned."""
        self._record_waiting(cause)
        return False

    def _note_starving(self, now: float) -> None:
        """Add the time since the last call to the waiting time for the worker that is missing."""
        self.starved[self.awaited] += now - self.looked_at
        self.looked_at = now

    def _note_wait(self) -> None:
        if self.idle:
            now = time.monotonic()
            self.waited = now - self.idle_since
            self.idle = False
            self._note_starving(now)

    def _record_waiting(self, cause: str) -> None:
        """Store on the run what its trainer waits for, as its page shows it; "" means nothing."""
        if (cause := cause[:200]) != self.run.waiting_on:
            Run.objects.filter(pk=self.run.pk, fence=self.fence, state=Run.State.RUNNING).update(
                waiting_on=cause
            )
            self.run.waiting_on = cause

    def _complete(self) -> None:
        if self.run.step >= self.run.planned_steps:
            with suppress(NotPossible):  # the run was stopped meanwhile
                self.run.complete()

    def _pause(self, reason: str) -> None:
        with suppress(NotPossible):
            self.run.pause(reason=reason[:500])

    # -- leaving -----------------------------------------------------------------------------------

    def keep(self) -> None:
        """Write a checkpoint, if the run's next trainer would otherwise have to repeat steps.

        Nothing is written if another trainer has taken over the run, if the run has ended, or if
        this trainer made a step that was not committed.
        """
        if self.host.trainer is None:
            return
        self.host.rest()
        self.run.refresh_from_db()
        if not self._has_more_than_checkpoints() or self.run.state in Run.ENDED:
            return
        if not self.run.renew_trainer(self.fence, settings.LEASE_SECONDS):
            return
        log.info("writing_checkpoint", run=self.run, step=self.host.step)
        self.host.save()
        with self.run.fenced(self.fence) as run:
            run.note_checkpoint(self.host.step, None)

    def _has_more_than_checkpoints(self) -> bool:
        if not 0 < self.host.step <= self.run.step:
            return False
        steps = map(checkpoint.checkpoint_step, checkpoint.sealed(self.host.spec.output))
        newest = max((step for step in steps if step <= self.run.step), default=0)
        return newest < self.host.step

    def leave(self) -> None:
        self.host.stop()
        self.run.release_trainer(self.fence)


def build_training_row(
    experience: Experience, pngs: Mapping[str, bytes] = NONE, newest_only: bool = False
) -> Row:
    """Convert an experience to a training row.

    `pngs` holds the pictures that it shows, by name. With `newest_only`, tokens that older weights
    sampled are left out of the loss. An expert's row is imitated as a whole, whatever its age.
    """
    tokens = experience.rollout.tokens
    is_usual = experience.kind == Experience.Kind.USUAL
    return Row(
        prompt_ids=tokens.prompt_ids,
        completion_ids=tokens.completion_ids,
        action_mask=tokens.newest_mask if newest_only and is_usual else tokens.action_mask,
        behaviour_logprobs=tokens.logprobs,
        advantage=experience.credit.advantage,
        token_advantages=experience.credit.tokens,
        kind=experience.kind,
        pictures=tuple(
            ShownPicture(pngs[name], first, past) for name, first, past in tokens.pictures
        ),
    )


def _size(manifest: Manifest) -> int:
    return sum(entry.bytes for entry in manifest.files.values())


class ExperienceRunTrainer(RunTrainer[Experience]):
    """Trainer of a run that learns from rollouts."""

    def _plan(self) -> TrainStep | None:
        """Return the next step with its batch fixed, or None if something is missing."""
        experts.admit_experts(self.run, self.fence)
        return plan_step(self.run, self.fence, credit_batch, treat)

    def _batch(self, step: TrainStep) -> Sequence[Experience]:
        return batch_of(step)

    def _rows(self, batch: Sequence[Experience]) -> list[Row]:
        """Return the training rows of the batch, without the experiences that operators left out.

        If operators left out every usual experience, the step is skipped and all rows are
        returned.
        """
        if any(
            experience.kind == Experience.Kind.USUAL and not experience.left_out
            for experience in batch
        ):
            batch = [experience for experience in batch if not experience.left_out]
        picture_names = {
            name for experience in batch for name, _, _ in experience.rollout.tokens.pictures
        }
        pngs = load_pngs(self.run.project_id, picture_names)
        newest_only = self.run.settings.sampling.older_segments == "leave_out"
        return [build_training_row(experience, pngs, newest_only) for experience in batch]

    def _metrics(
        self, run: Run, step: TrainStep, batch: Sequence[Experience], seconds: float
    ) -> dict[str, float]:
        starved = {f"starved_{stage}": waited for stage, waited in self.starved.items()}
        self.next_open = metrics.first_open(run)
        return {
            **metrics.compute_batch_metrics(run, step, batch),
            **metrics.of_time(run, batch, seconds, self.waited, self.first_open),
            **starved,
        }

    def _cause(self) -> str:
        return metrics.describe_missing_groups(self.run)
