"""The trainer's loop over all runs: at most so many resident, one update each in turn, faults kept to their run."""

import time

import structlog
from django.conf import settings
from django.db import OperationalError
from django.db.models import F

from apps.runs.models import NotPossible, Run, StaleFence, Worker
from workers.trainer.desk import Desk
from workers.trainer.keeper import Keeper
from workers.trainer.lessons.desk import LessonDesk
from workers.trainer.replays import ReplayDesk

log = structlog.get_logger(__name__)
# A run keeps its place at least this long before it makes room for one that has none.
RESIDENT_SECONDS = 20.0


class Trainer:
    """One per worker process; lives as long as it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.keeper = Keeper(worker)
        self.desks: dict[int, Desk] = {}

    def serve(self) -> bool:
        """One turn of every run that is live, the least recently trained first; says whether any update was made."""
        running = list(
            Run.objects.training().select_related("policy", "topic").order_by(F("trained_at").asc(nulls_first=True), "pk")
        )
        self._leave_ended({run.pk for run in running})
        if self.worker.takes_nothing:
            self._leave_all()
            running = []
        made = [self._turn(run) for run in running]
        self.keeper.say({desk.run.pk: (desk.run.slug, _doing(desk)) for desk in self.desks.values()}, self._idle_words())
        return any(made)

    def _turn(self, run: Run) -> bool:
        """What goes wrong here ends this run's stay, not the worker: the next one starts from rows and disk."""
        try:
            desk = self._desk_for(run)
            made = desk.turn() if desk else False
            if desk and desk.run.state in Run.ENDED:
                self._leave(run)
            return made
        except StaleFence as taken:
            log.warning("run_taken_over", run=run, reason=str(taken))
            self._leave(run)
        except OperationalError:
            self._leave(run)
            raise
        except Exception as error:
            log.exception("training_failed", run=run)
            self._leave(run)
            self._pause(run, error)
        return False

    def _desk_for(self, run: Run) -> Desk | None:
        """The run's desk; a new one where its lease is free and there is, or can be made, a place."""
        if run.pk in self.keeper.lost:
            self._leave(run)
        if run.pk in self.desks:
            return self.desks[run.pk]
        if not self._has_room() or not run.claim_trainer(self.worker.key, settings.LEASE_SECONDS):
            return None
        if len(self.desks) >= settings.TRAINERS_PER_WORKER:
            self._leave(self._most_spare().run)
        self.keeper.hold(run, run.fence)
        desk = self.desks[run.pk] = desk_for(run)
        desk.open()
        log.info("run_taken", run=run, fence=run.fence, step=run.step)
        return desk

    def _has_room(self) -> bool:
        return len(self.desks) < settings.TRAINERS_PER_WORKER or self._most_spare() is not None

    def _most_spare(self) -> Desk | None:
        """Who makes room: a run that is not live, else one that waits for data, else the one that was here longest."""
        now = time.monotonic()
        spare = [desk for desk in self.desks.values() if not desk.run.is_live or now - desk.taken_at > RESIDENT_SECONDS]
        return min(spare, key=lambda desk: (desk.run.is_live, not desk.idle, desk.taken_at), default=None)

    def _leave_ended(self, running: set[int]) -> None:
        """Paused runs keep their place while nobody needs it; ended ones go."""
        for desk in [desk for run_id, desk in self.desks.items() if run_id not in running]:
            desk.run.refresh_from_db()
            if desk.run.state in Run.ENDED or desk.run.pk in self.keeper.lost:
                self._leave(desk.run)

    def _idle_words(self) -> str:
        return "takes nothing, as it was told" if self.worker.takes_nothing else "waiting for a run"

    def _leave_all(self) -> None:
        for desk in list(self.desks.values()):
            self._leave(desk.run)

    def _leave(self, run: Run) -> None:
        """Give the run up. While the database is away its lease cannot be released, and simply runs out."""
        self.keeper.let_go(run)
        if desk := self.desks.pop(run.pk, None):
            try:
                desk.leave()
            except OperationalError as error:
                log.warning("lease_not_released", run=run, error=str(error).strip())

    def _pause(self, run: Run, error: Exception) -> None:
        try:
            run.pause(reason=f"training failed: {type(error).__name__}: {error}"[:500])
        except NotPossible:
            log.info("run_not_live", run=run)

    def stop(self) -> None:
        self.keeper.stop()
        self._leave_all()
        self.worker.stop()


def desk_for(run: Run) -> Desk:
    plan = run.settings
    kind = LessonDesk if plan.algorithm.learns_from_lessons else Desk if plan.samples else ReplayDesk
    return kind(run, run.fence)


def _doing(desk: Desk) -> str:
    return f"waiting for {desk.run.waiting_on}" if desk.idle else f"step {desk.run.step}"
