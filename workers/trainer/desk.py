"""One run at its trainer: a lease, a resident host, and one update per turn.

The order of a turn is what makes a crash at any point harmless: the batch is fixed in the database, the update is
made, the weights are sealed on disk, then one transaction under the fence says all of it happened; only what was read
back from disk is offered to the engines. Whoever takes the run over resumes from the newest intact checkpoint and
makes the recorded updates after it again.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import structlog
import torch
from django.conf import settings
from django.db import Error
from django.db.models.functions import Now
from safetensors import SafetensorError

from apps.accounts.locking import retrying
from apps.buffer.models import Experience, batch_of, commit_step, plan_step
from apps.feedback.evaluation.scheduled import keep_up
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.batching import treat
from apps.pipelines.crediting import of_batch
from apps.policies.manifest import DamagedWeights, Manifest, Shown, require_like, verify
from apps.runs.costs import CPU, GPU, metrics_of
from apps.runs.models import Metric, NotPossible, Run, TrainStep, Usage, WeightVersion
from workers import stopping
from workers.movement import movement
from workers.pictures import pngs_of
from workers.trainer import checkpoint, experts, figures, shelf
from workers.trainer.collate import Row
from workers.trainer.due import UNOFFERED
from workers.trainer.host import TrainerHost
from workers.trainer.report import StepReport
from workers.trainer.spec import Knobs

log = structlog.get_logger(__name__)
CAUSE_SECONDS = 1.0
NONE: Mapping[str, bytes] = MappingProxyType({})


class Desk:
    """`fence` is the run's at the time it was claimed; every write is refused once it is no longer in force."""

    def __init__(self, run: Run, fence: int) -> None:
        self.run, self.fence = run, fence
        self.host = self._host()
        self.taken_at = self.turned_at = self.used_at = time.monotonic()
        self.waited = self.idle_since = self.cause_at = 0.0
        self.idle, self.first_open = False, figures.first_open(run) if run.step else 0  # of the groups that close from now on
        self.began = time.monotonic(), time.process_time()  # of the update under way, for what it uses
        self.starved = dict.fromkeys(figures.STATIONS, 0.0)  # seconds of the wait, by the station that was waited for

    # -- taking over ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Bring the trainer to the run's last committed update, and its weights to the engines."""
        shelf.sweep(self.run)
        newest, damage = checkpoint.newest_intact(self.host.spec.output, at_most=self.run.step)
        for words in damage:
            log.error("checkpoint_damaged", run=self.run, reason=words)
            self.run.topic.record("checkpoint_damaged", reason=words)
        self.host.start(newest)
        self._replay()
        self.host.recorder.skips_in_a_row = figures.skips_in_a_row(self.run)
        self._offer()
        self.turned_at = self.used_at = time.monotonic()

    def _replay(self) -> None:
        """Make the committed updates after the checkpoint again, from their recorded batches; no row is touched."""
        missing = self.run.step - self.host.step
        if not missing:
            return
        log.info("replaying", run=self.run, from_step=self.host.step, to_step=self.run.step)
        self._say(f"{missing} recorded updates to be made again after a restart")
        for step in self.run.steps.filter(state=TrainStep.State.COMMITTED, number__gt=self.host.step).order_by("number"):
            self._update(step, self._batch(step))
        self._say("")

    # -- one turn ---------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Make the run's next update if its batch is there; says whether one was made.

        Raises StaleFence, and Interrupted where nobody wants the update any more.
        """
        self.run.refresh_from_db()
        try:
            step = self._plan()
        except OperatorFailed as failure:
            self._pause(f"its pipeline broke at the batch of update {self.run.step + 1}: {failure}")
            return False
        if step is None:
            return self.wait()
        self._note_wait()
        self._say("")
        self.began = time.monotonic(), time.process_time()
        batch = self._batch(step)
        report = self._update(step, batch, self.run.checkpoint_asked_at is not None)
        staged = self._stage(step) if self._is_due(step) else None
        self._commit(step, batch, report, staged)
        self._offer()
        if report.blocked:
            self._pause(report.blocked)
        self._complete()
        self.used_at = time.monotonic()
        return True

    def _update(self, step: TrainStep, batch: Sequence, is_asked: bool = False) -> StepReport:
        """With what was recorded with the step, whatever stands in the configuration by now."""
        is_due = step.number % self.run.settings.checkpoints.every == 0
        knobs = Knobs.recorded(step.knobs)
        rows, saves = self._rows(batch), is_asked or is_due
        return self.host.grant(rows, step.skipped, saves, knobs, is_unwanted=self._is_unwanted)

    def _is_unwanted(self) -> bool:
        """Whether the worker was asked to stop, or the run was stopped; asked during an update."""
        if stopping.is_asked():
            return True
        try:
            return Run.objects.filter(pk=self.run.pk, state__in=Run.ENDED).exists()
        except Error:  # away: the commit waits for it, or finds the lease lost
            return False

    def _is_due(self, step: TrainStep) -> bool:
        """Every `sync_interval` updates, and once more at the end of the plan."""
        return step.number % self.run.settings.sync_interval == 0 or step.number == self.run.planned_steps

    def _stage(self, step: TrainStep) -> WeightVersion:
        """Seal the weights on disk; the row is written with the commit."""
        parent = self.run.weight_versions.order_by("-version").first()
        version = WeightVersion(run=self.run, version=parent.version + 1, parent=parent, step=step.number)
        self._write(version)
        return version

    def _write(self, version: WeightVersion) -> None:
        folder = shelf.weights_folder(self.run, version.version, self.fence)
        shutil.rmtree(folder, ignore_errors=True)
        manifest = self.host.publish(folder, version.version, version.parent.version)
        version.folder, version.fingerprint, version.bytes = str(folder), manifest.fingerprint, _size(manifest)
        version.movement = self._movement(version)

    def _movement(self, version: WeightVersion) -> dict | None:
        """How far it has moved from its parent; None where the parent's folder is gone: a figure is no reason to stop."""
        try:
            return movement(Path(version.folder), Path(version.parent.folder))
        except (DamagedWeights, SafetensorError, OSError, KeyError) as why:
            log.warning("movement_not_measured", run=self.run, weight_version=version.version, reason=str(why))
            return None

    @retrying
    def _commit(self, step: TrainStep, batch: Sequence, report: StepReport, staged: WeightVersion | None) -> None:
        """Say in one transaction, under the fence, that the update happened. Raises StaleFence and writes nothing."""
        seconds = time.monotonic() - self.turned_at
        with self.run.fenced(self.fence) as run:
            values = {**report.metrics, **self._figures(run, step, batch, seconds)}
            values["skipped"] = float(bool(report.skipped))
            Usage.add(run.pk, run.lease_owner, self._used())
            values |= metrics_of(run)
            commit_step(run, step, self.fence, skipped=report.skipped)
            Metric.record(run, step.number, values)
            if report.checkpoint:
                run.note_checkpoint(step.number, self.run.checkpoint_asked_at)
            if staged is not None:
                staged.save()
            Run.objects.filter(pk=run.pk).update(trained_at=Now(), waiting_on="")
            run.topic.record("step_committed", step=step.number, reward=values.get("reward_mean"), skipped=report.skipped)
        self.run.refresh_from_db()
        self.turned_at, self.waited, self.idle = time.monotonic(), 0.0, False
        self.starved = dict.fromkeys(figures.STATIONS, 0.0)
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
        """Seconds since the update was begun: of the GPU, where there is one, and of the processor, all threads together."""
        wall, processor = self.began
        used = {f"trainer.{CPU}": time.process_time() - processor}
        return used | ({f"trainer.{GPU}": time.monotonic() - wall} if torch.cuda.is_available() else {})

    # -- what differs for a run that learns from lessons -------------------------------------------------------------

    def _host(self) -> TrainerHost:
        return TrainerHost(shelf.spec_of(self.run))

    def _plan(self) -> TrainStep | None:
        """The next step with its batch fixed, or None while something is missing."""
        experts.take_in(self.run, self.fence)
        return plan_step(self.run, self.fence, of_batch, treat)

    def _batch(self, step: TrainStep) -> Sequence[Experience]:
        return batch_of(step)

    def _rows(self, batch: Sequence[Experience]) -> list[Row]:
        """Without what operators left out; all, of an update that is skipped since they left nothing."""
        if any(experience.kind == Experience.Kind.USUAL and not experience.left_out for experience in batch):
            batch = [experience for experience in batch if not experience.left_out]
        shown = {name for experience in batch for name, _, _ in experience.rollout.tokens.pictures}
        pngs = pngs_of(self.run.project_id, shown)
        newest_only = self.run.settings.sampling.older_segments == "leave_out"
        return [row_of(experience, pngs, newest_only) for experience in batch]

    def _figures(self, run: Run, step: TrainStep, batch: Sequence[Experience], seconds: float) -> dict[str, float]:
        starved = {f"starved_{station}": waited for station, waited in self.starved.items()}
        since, self.first_open = self.first_open, figures.first_open(run)
        return {**figures.of_batch(run, step, batch), **figures.of_time(run, batch, seconds, self.waited, since), **starved}

    def _cause(self) -> str:
        return figures.cause_of_waiting(self.run)

    # -- weights ----------------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        """Publish what is staged once it was read back from disk; what is damaged is written once more."""
        versions = self.run.weight_versions.filter(version__gt=self.run.published_version, state__in=UNOFFERED).order_by("version")
        for version in versions.select_related("parent"):
            if version.state == WeightVersion.State.REFUSED or not self._is_intact(version):
                self._write_again(version)
            self._publish(version)
            keep_up(self.run)  # before its folder could go; the sweep does the same, should we die here
            shelf.retire(self.run, self.fence)
        self.run.refresh_from_db()

    @retrying
    def _publish(self, version: WeightVersion) -> None:
        with self.run.fenced(self.fence):
            version.verify()
            version.publish()

    def _is_intact(self, version: WeightVersion) -> bool:
        try:
            return self._verified(version) == version.fingerprint
        except (DamagedWeights, OSError) as damage:
            log.error("staged_weights_damaged", run=self.run, weight_version=version.version, reason=str(damage))
            return False

    def _verified(self, version: WeightVersion) -> str:
        """The fingerprint of what lies on disk, every byte of it read. Raises DamagedWeights, OSError."""
        manifest = verify(Path(version.folder))
        require_like(manifest.tensors, self.host.layout())
        return manifest.fingerprint

    def _write_again(self, version: WeightVersion) -> None:
        """Only the newest version's weights are still in the trainer. Raises DamagedWeights when that fails too."""
        if version.step == self.host.step:
            self._write(version)
        try:
            self._verified(version)
        except DamagedWeights as damage:
            with self.run.fenced(self.fence):
                version.refuse(str(damage))
            raise
        with self.run.fenced(self.fence):
            version.state, version.reason = WeightVersion.State.STAGED, ""
            version.save()

    # -- waiting and ending -----------------------------------------------------------------------------------------

    def wait(self) -> bool:
        """Nothing to train: the plan is done, or the run says what it waits for."""
        now = time.monotonic()
        is_looked_at = now - self.cause_at > CAUSE_SECONDS
        if is_looked_at:
            self.run.refresh_from_db()
        self._complete()
        if not self.idle:
            self.idle, self.idle_since, self.looked_at, self.awaited = True, now, now, figures.starving(self.run)
        if not self.run.is_live:
            self.looked_at = now  # a paused run starves of nothing
        elif is_looked_at:
            self._say(self._cause())
            self._note_starving(now)
            self.cause_at, self.awaited = now, figures.starving(self.run)
        return False

    def _note_starving(self, now: float) -> None:
        """What has passed since the last look was spent on the station that was waited for then."""
        self.starved[self.awaited] += now - self.looked_at
        self.looked_at = now

    def _note_wait(self) -> None:
        if self.idle:
            now = time.monotonic()
            self.waited, self.idle = now - self.idle_since, False
            self._note_starving(now)

    def _say(self, cause: str) -> None:
        """What the run's page says that the trainer waits for; "" while it waits for nothing."""
        if (cause := cause[:200]) != self.run.waiting_on:
            Run.objects.filter(pk=self.run.pk, fence=self.fence, state=Run.State.RUNNING).update(waiting_on=cause)
            self.run.waiting_on = cause

    def _complete(self) -> None:
        if self.run.step >= self.run.planned_steps:
            with suppress(NotPossible):  # stopped meanwhile
                self.run.complete()

    def _pause(self, reason: str) -> None:
        with suppress(NotPossible):
            self.run.pause(reason=reason[:500])

    # -- leaving -----------------------------------------------------------------------------------

    def keep(self) -> None:
        """Write a checkpoint if the next trainer of the run would otherwise replay updates.

        Not if another trainer has the run by now, if the run has ended, or if this trainer made an
        update that was not committed.
        """
        if self.host.trainer is None:
            return
        self.host.rest()
        self.run.refresh_from_db()
        if not self._has_more_than_checkpoints() or self.run.state in Run.ENDED:
            return
        if not self.run.keep_trainer(self.fence, settings.LEASE_SECONDS):
            return
        log.info("writing_checkpoint", run=self.run, step=self.host.step)
        self.host.save()
        with self.run.fenced(self.fence) as run:
            run.note_checkpoint(self.host.step, None)

    def _has_more_than_checkpoints(self) -> bool:
        if not 0 < self.host.step <= self.run.step:
            return False
        there = map(checkpoint.step_of, checkpoint.sealed(self.host.spec.output))
        newest = max((step for step in there if step <= self.run.step), default=0)
        return newest < self.host.step

    def leave(self) -> None:
        self.host.stop()
        self.run.release_trainer(self.fence)


def row_of(experience: Experience, pngs: Mapping[str, bytes] = NONE, newest_only: bool = False) -> Row:
    """`pngs`: the bytes of the pictures that it shows, by name. `newest_only`: what older weights sampled teaches nothing.

    An expert's row is imitated as a whole, at any age.
    """
    tokens, is_usual = experience.rollout.tokens, experience.kind == Experience.Kind.USUAL
    return Row(
        prompt_ids=tokens.prompt_ids,
        completion_ids=tokens.completion_ids,
        action_mask=tokens.newest_mask if newest_only and is_usual else tokens.action_mask,
        behaviour_logprobs=tokens.logprobs,
        advantage=experience.credit.advantage,
        token_advantages=experience.credit.tokens,
        kind=experience.kind,
        pictures=tuple(Shown(pngs[name], first, past) for name, first, past in tokens.pictures),
    )


def _size(manifest: Manifest) -> int:
    return sum(entry.bytes for entry in manifest.files.values())
