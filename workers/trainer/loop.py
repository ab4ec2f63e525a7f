"""Loop of a trainer worker over all runs: one step each in turn.

Only a run with something to do now is loaded, the least recently trained first. TRAINERS_PER_WORKER
runs may stay loaded, and more while memory allows (workers.memory_budget). If no more fit, the run
without work for the longest time is unloaded, or one that had its turn of TRAINER_TURN_SECONDS. It
writes a checkpoint first, so it need not repeat updates when it is loaded again. An error unloads
one run and does not end the worker.

A run whose trainer has several processes has the worker for itself, because torch knows only one
group of them in a process. If such a run loses a process, it starts again with new ones from its
last checkpoint.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import structlog
from django.conf import settings
from django.db import OperationalError
from django.db.models import F, QuerySet
from django.utils import timezone

from apps.accounts.compiled_queries import compiled_query
from apps.runs.models import NotPossible, Run, StaleFence, Worker
from workers import gpu_turns, memory_budget, stop_request
from workers.trainer.batch_queue import Interrupted
from workers.trainer.launching import RankLost
from workers.trainer.lease_renewal import LeaseRenewer
from workers.trainer.lessons.run_trainer import LessonRunTrainer
from workers.trainer.memory import estimate_trainer_bytes
from workers.trainer.replay_trainer import ReplayRunTrainer
from workers.trainer.run_trainer import CAUSE_SECONDS, ExperienceRunTrainer
from workers.trainer.runs_to_train import describe_waiting, list_runs_to_train, soon_among
from workers.waiting_reasons import all_taken, built_lately

log = structlog.get_logger(__name__)
# How long a run without work stays loaded after its last step: more work may follow.
QUIET_SECONDS = 5.0
# How often a run may lose a process of its trainer without making a step in between.
MAX_LOSSES = 3

LoadedTrainer = ExperienceRunTrainer | ReplayRunTrainer | LessonRunTrainer


class TrainerLoop:
    """Loop of one trainer worker, for the life of its process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.lease_renewer = LeaseRenewer(worker)
        # All are keyed by the run's id.
        self.run_trainers: dict[int, LoadedTrainer] = {}
        self.made_way: dict[
            int, float
        ] = {}  # when the trainer was built that was unloaded for another
        self.sizes: dict[int, int] = {}  # bytes that its trainer took
        self.said_at: dict[int, float] = {}  # when it was last checked what the run waits for
        self.losses: dict[int, ProcessLosses] = {}  # losses of processes since its last step

    def serve(self) -> bool:
        """Make one step of every run that is due; return whether any was made."""
        running = _runs_in_turn()
        self._leave_ended({run.pk for run in running})
        if self.worker.takes_nothing:
            self._leave_all()
            running = []
        due_ids = list_runs_to_train(running)
        ready = [run for run in running if run.pk in due_ids]
        updated = [self._turn(run, due_ids) for run in ready if not stop_request.is_asked()]
        for run in running:
            if run.pk not in due_ids:
                self._wait(run)
        if not any(updated) and not stop_request.is_asked():
            self._prepare(running)
        self._trim(due_ids)
        self.lease_renewer.report(
            {
                trainer.run.pk: (trainer.run.slug, _doing(trainer))
                for trainer in self.run_trainers.values()
            },
            self._idle_words(),
        )
        return any(updated)

    def _turn(self, run: Run, due_ids: Collection[int]) -> bool:
        def work() -> bool:
            trainer = self._run_trainer_for(run, due_ids)
            if trainer is None:
                return False
            with gpu_turns.hold_gpu(run.settings) as is_ours:
                is_made = trainer.step() if is_ours else trainer.wait_for(gpu_turns.ENGINE_IS_THERE)
            if trainer.run.state in Run.ENDED:
                self._leave(run)
            return is_made

        return self._guarded(run, work)

    def _guarded(self, run: Run, work: Callable[[], bool]) -> bool:
        """Call `work`; after an error unload this run and keep the worker alive.

        The next trainer of the run starts from database rows and files.
        """
        try:
            return work()
        except Interrupted:
            log.info("update_interrupted", run=run, step=run.step + 1)
            if not stop_request.is_asked():  # otherwise `stop` unloads the run
                self._leave(run)
        except StaleFence as taken:
            log.warning("run_claim_lost", run=run, reason=str(taken))
            self._leave(run)
        except OperationalError:
            self._leave(run)
            raise
        except RankLost as lost:
            self._leave(run)
            self._note_loss(run, lost)
        except Exception as error:
            log.exception("training_failed", run=run)
            self._leave(run)
            self._pause(run, error)
        return False

    def _note_loss(self, run: Run, lost: RankLost) -> None:
        """Count the loss of a process, and pause the run if the same step was lost too often.

        Otherwise the next turn repeats the step.
        """
        before = self.losses.get(run.pk)
        times = before.times + 1 if before and before.step == run.step else 1
        self.losses[run.pk] = ProcessLosses(run.step, times)
        log.warning("rank_lost", run=run, step=run.step + 1, reason=str(lost), times=times)
        run.topic.record("rank_lost", step=run.step + 1, reason=str(lost)[:500])
        if times >= MAX_LOSSES:
            self._pause(run, lost)

    # -- loaded runs

    def _run_trainer_for(self, run: Run, due_ids: Collection[int] = ()) -> LoadedTrainer | None:
        """Return the run's loaded trainer.

        Load it if the lease is free and there is, or can be made, room; otherwise return None.
        """
        if run.pk in self.lease_renewer.lost:
            self._leave(run)
        if run.pk in self.run_trainers:
            if self.run_trainers[run.pk].is_built_as(run):
                return self.run_trainers[run.pk]
            log.info("trainer_rebuilt", run=run, processes=run.settings.trainer.processes)
            self._leave(run, keeps=True)
        if self._is_elsewhere(run):
            return None
        leaving = self._trainers_to_unload(run, due_ids)
        if leaving is None or self._was_unloaded_recently(run):
            self._say_no_room(run)
            return None
        with gpu_turns.hold_gpu(run.settings) as is_ours:
            if not is_ours:
                self._record_waiting(run, gpu_turns.ENGINE_IS_THERE)
                return None
            if not run.claim_trainer(self.worker.key, settings.LEASE_SECONDS):
                return None
            for trainer in leaving:
                self._unload_to_make_room(trainer)
            return self._open(run)

    def _is_elsewhere(self, run: Run) -> bool:
        """Tell whether another trainer held the run when its row was read; only a claim decides."""
        if run.lease_until is None or run.lease_owner == self.worker.key:
            return False
        return run.lease_until > timezone.now()

    def _open(self, run: Run) -> LoadedTrainer:
        self.lease_renewer.add(run, run.fence)
        trainer = self.run_trainers[run.pk] = run_trainer_for(run)
        trainer.open()
        log.info("run_claimed", run=run, fence=run.fence, step=run.step)
        return trainer

    def _has_room(self, run: Run) -> bool:
        if len(self.run_trainers) < settings.TRAINERS_PER_WORKER:
            return True
        if run.pk not in self.sizes:
            plan = run.settings
            self.sizes[run.pk] = estimate_trainer_bytes(
                Path(run.policy.folder), plan.lora is not None, plan.optimizer.kind
            )
        return memory_budget.fits(self._resident_bytes(), self.sizes[run.pk])

    def _resident_bytes(self) -> int:
        built = {run: trainer.host.bytes for run, trainer in self.run_trainers.items()}
        self.sizes |= {run: size for run, size in built.items() if size}
        return sum(self.sizes.get(run, 0) for run in self.run_trainers)

    def _trainers_to_unload(self, run: Run, due_ids: Collection[int]) -> list[LoadedTrainer] | None:
        """Return the loaded runs to unload before this run can be loaded, possibly none.

        Return None if the runs in the way cannot be unloaded yet.
        """
        if self._is_for_itself(run):
            loaded = list(self.run_trainers.values())
            now = time.monotonic()
            return loaded if all(_may_leave(trainer, due_ids, now) for trainer in loaded) else None
        if self._has_room(run):
            return []
        trainer = self._trainer_to_unload(due_ids)
        return [trainer] if trainer else None

    def _is_for_itself(self, run: Run) -> bool:
        """Tell whether this run, or a loaded one, has several processes."""
        runs = [run, *(trainer.run for trainer in self.run_trainers.values())]
        return any(candidate.settings.trainer.processes > 1 for candidate in runs)

    def _trainer_to_unload(self, due_ids: Collection[int]) -> LoadedTrainer | None:
        """Return the run to unload, or None.

        First come runs that are not live, then those without work, the longest unused first, then
        those that had their turn.
        """
        now = time.monotonic()
        may = [
            trainer for trainer in self.run_trainers.values() if _may_leave(trainer, due_ids, now)
        ]
        may.sort(
            key=lambda trainer: (
                trainer.run.is_live,
                trainer.run.pk in due_ids,
                trainer.used_at,
            )
        )
        return may[0] if may else None

    def _was_unloaded_recently(self, run: Run) -> bool:
        """Tell whether the run was loaded so recently that it may not be loaded again yet.

        A trainer is built at most once in TRAINER_TURN_SECONDS.
        """
        built = self.made_way.get(run.pk)
        return built is not None and time.monotonic() - built < settings.TRAINER_TURN_SECONDS

    def _unload_to_make_room(self, trainer: LoadedTrainer) -> None:
        log.info("run_yielded", run=trainer.run, step=trainer.run.step)
        if trainer.run.is_live:
            self.made_way[trainer.run.pk] = trainer.taken_at
        self._leave(trainer.run, keeps=True)

    def _prepare(self, running: list[Run]) -> None:
        """Load one run whose groups are being sampled or scored, if there is room."""
        if len(self.run_trainers) >= settings.TRAINERS_PER_WORKER:
            return
        away = [
            run
            for run in running
            if run.pk not in self.run_trainers and not self._is_elsewhere(run)
        ]
        away = [run for run in away if not self._was_unloaded_recently(run)]
        if self.run_trainers:
            away = [run for run in away if not self._is_for_itself(run)]
        soon = soon_among(away) if away else set()
        if run := next((run for run in away if run.pk in soon), None):
            self._guarded(run, lambda: bool(self._run_trainer_for(run)))

    def _trim(self, due_ids: Collection[int]) -> None:
        """Unload the least recently used run if the loaded models need too much memory.

        Models grow with their first step.
        """
        if len(self.run_trainers) <= settings.TRAINERS_PER_WORKER:
            return
        is_too_much = self._resident_bytes() > memory_budget.bound()
        if is_too_much and (trainer := self._trainer_to_unload(due_ids)):
            self._unload_to_make_room(trainer)

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, run: Run) -> None:
        """Record what the run waits for; for a run that is not loaded, check once a second."""
        if run.pk in self.lease_renewer.lost:
            self._leave(run)
        if trainer := self.run_trainers.get(run.pk):
            self._guarded(run, trainer.wait)
        elif not self._is_elsewhere(run) and self._looks_again(run):
            self._record_waiting(run, describe_waiting(run))

    def _looks_again(self, run: Run) -> bool:
        """Tell whether to check again what the run waits for: at most once a second.

        The check takes several statements.
        """
        now = time.monotonic()
        if now - self.said_at.get(run.pk, 0.0) <= CAUSE_SECONDS:
            return False
        self.said_at[run.pk] = now
        return True

    def _say_no_room(self, run: Run) -> None:
        if self._was_unloaded_recently(run):
            why = built_lately(settings.TRAINER_TURN_SECONDS)
        else:
            holders = Run.objects.leased()  # by any trainer: all report the same reason
            why = all_taken(run, list(holders.only("slug", "project_id")))
        self._record_waiting(run, f"a free trainer: {why}")

    def _record_waiting(self, run: Run, cause: str) -> None:
        """Store what the run waits for, unless a trainer holds the run and stores it itself."""
        if (reason := cause[:200]) != run.waiting_on:
            waiting = Run.objects.free().filter(pk=run.pk, state=Run.State.RUNNING)
            waiting.update(waiting_on=reason)

    def _idle_words(self) -> str:
        return "draining: takes no new work" if self.worker.takes_nothing else "waiting for a run"

    # -- leaving -----------------------------------------------------------------------------------

    def _leave_ended(self, running: set[int]) -> None:
        """Unload ended runs; paused runs stay loaded while their memory is not needed."""
        away = [trainer for run_id, trainer in self.run_trainers.items() if run_id not in running]
        rows = Run.objects.filter(pk__in=[trainer.run.pk for trainer in away])
        states = dict(rows.values_list("pk", "state")) if away else {}
        for trainer in away:
            trainer.run.state = states.get(trainer.run.pk, Run.State.STOPPED)
            if trainer.run.state in Run.ENDED or trainer.run.pk in self.lease_renewer.lost:
                self._leave(trainer.run)

    def _leave_all(self) -> None:
        for trainer in list(self.run_trainers.values()):
            self._leave(trainer.run, keeps=True)

    def _leave(self, run: Run, keeps: bool = False) -> None:
        """Unload the run; with `keeps`, write a checkpoint first, so that no step is repeated.

        If the database is unavailable, the lease cannot be released and simply expires.
        """
        trainer = self.run_trainers.pop(run.pk, None)
        if trainer and keeps:
            self._keep(trainer)
        self.lease_renewer.remove(run)
        if trainer:
            try:
                trainer.leave()
            except OperationalError as error:
                log.warning("lease_not_released", run=run, error=str(error).strip())
            memory_budget.release_unused()

    def _keep(self, trainer: LoadedTrainer) -> None:
        """Write a checkpoint of the run; log a failure and go on.

        Without the checkpoint, the next trainer replays some steps; nothing else is lost.
        """
        try:
            trainer.keep()
        except Exception as error:
            log.warning("checkpoint_not_written", run=trainer.run, error=str(error).strip())

    def _pause(self, run: Run, error: Exception) -> None:
        try:
            run.pause(reason=f"training failed: {type(error).__name__}: {error}"[:500])
        except NotPossible:
            log.info("run_not_paused", run=run)

    def stop(self) -> None:
        """Unload all runs with a checkpoint, and renew the leases meanwhile.

        Writing a large checkpoint may take longer than a lease.
        """
        for trainer in list(self.run_trainers.values()):
            self.lease_renewer.doing = f"stopping; writing remaining data of {trainer.run.slug}"
            self._leave(trainer.run, keeps=True)
        self.lease_renewer.stop()
        self.worker.stop()


@compiled_query
def _runs_in_turn() -> QuerySet[Run]:
    """Return the runs to train, the one that was trained least recently first."""
    turns = F("trained_at").asc(nulls_first=True)
    return Run.objects.training().select_related("policy", "topic").order_by(turns, "pk")


def run_trainer_for(run: Run) -> LoadedTrainer:
    plan = run.settings
    kind: type[LoadedTrainer] = (
        LessonRunTrainer
        if plan.algorithm.learns_from_lessons
        else ExperienceRunTrainer
        if plan.samples
        else ReplayRunTrainer
    )
    return kind(run, run.fence)


def _may_leave(trainer: LoadedTrainer, due_ids: Collection[int], now: float) -> bool:
    if not trainer.run.is_live:
        return True
    if trainer.run.pk not in due_ids:
        return now - trainer.used_at >= QUIET_SECONDS
    return now - trainer.taken_at >= settings.TRAINER_TURN_SECONDS


def _doing(trainer: LoadedTrainer) -> str:
    doing = f"waiting for {trainer.run.waiting_on}" if trainer.idle else f"step {trainer.run.step}"
    processes = trainer.run.settings.trainer.words
    return f"{doing} ({processes})" if processes else doing


@dataclass(frozen=True)
class ProcessLosses:
    """How often in a row a run's trainer lost a process, and at which step."""

    step: int
    times: int
