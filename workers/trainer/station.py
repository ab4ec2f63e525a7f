"""The trainer's loop over all runs: work first, then a seat; one update each in turn.

A run has a seat while its model is loaded here. Only a run with something to do now gets one, the
least recently trained first. TRAINERS_PER_WORKER runs may stay loaded, and more while memory allows
(workers.residence). Where no more fit, the run that was quiet longest makes way, or one that had
its turn of TRAINER_TURN_SECONDS. It writes a checkpoint first, so it replays nothing when it comes
back. An error ends one run's stay here, not the worker.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path

import structlog
from django.conf import settings
from django.db import OperationalError
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.runs.models import NotPossible, Run, StaleFence, Worker
from workers import residence, stopping
from workers.seats import built_lately, seat_wanted
from workers.trainer.desk import CAUSE_SECONDS, Desk
from workers.trainer.due import cause_of_waiting, due_among, soon_among
from workers.trainer.gate import Interrupted
from workers.trainer.keeper import Keeper
from workers.trainer.lessons.desk import LessonDesk
from workers.trainer.replays import ReplayDesk
from workers.trainer.saving import expected_bytes

log = structlog.get_logger(__name__)
# How long after its last update a run without work keeps its seat: more may be on its way.
QUIET_SECONDS = 5.0


class Trainer:
    """One per worker process; lives as long as it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.keeper = Keeper(worker)
        # All by the run's id.
        self.desks: dict[int, Desk] = {}
        self.made_way: dict[int, float] = {}  # when the trainer was built that made way for another
        self.sizes: dict[int, int] = {}  # bytes that its trainer took
        self.said_at: dict[int, float] = {}  # when it was last looked at what it waits for

    def serve(self) -> bool:
        """One turn of every run with something to do now; says whether any update was made."""
        running = list(
            Run.objects.training()
            .select_related("policy", "topic")
            .order_by(F("trained_at").asc(nulls_first=True), "pk")
        )
        self._leave_ended({run.pk for run in running})
        if self.worker.takes_nothing:
            self._leave_all()
            running = []
        due = due_among(running)
        ready = [run for run in running if run.pk in due]
        made = [self._turn(run, due) for run in ready if not stopping.is_asked()]
        for run in running:
            if run.pk not in due:
                self._wait(run)
        if not any(made) and not stopping.is_asked():
            self._prepare(running)
        self._trim(due)
        self.keeper.say(
            {desk.run.pk: (desk.run.slug, _doing(desk)) for desk in self.desks.values()},
            self._idle_words(),
        )
        return any(made)

    def _turn(self, run: Run, due: Collection[int]) -> bool:
        def act() -> bool:
            desk = self._desk_for(run, due)
            made = desk.turn() if desk else False
            if desk and desk.run.state in Run.ENDED:
                self._leave(run)
            return made

        return self._guarded(run, act)

    def _guarded(self, run: Run, act: Callable[[], bool]) -> bool:
        """An error ends this run's stay, not the worker: the next starts from rows and disk."""
        try:
            return act()
        except Interrupted:
            log.info("update_interrupted", run=run, step=run.step + 1)
            if not stopping.is_asked():  # else `stop` leaves in order
                self._leave(run)
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

    # -- seats -------------------------------------------------------------------------------------

    def _desk_for(self, run: Run, due: Collection[int] = ()) -> Desk | None:
        """The run's desk; a new one where its lease is free and there is, or can be made, room."""
        if run.pk in self.keeper.lost:
            self._leave(run)
        if run.pk in self.desks:
            return self.desks[run.pk]
        if self._is_elsewhere(run):
            return None
        leaves = None
        if not self._has_room(run):
            leaves = self._who_makes_way(due)
            if leaves is None:
                self._say_no_seat(run)
                return None
        if self._made_way_lately(run):
            self._say_no_seat(run)
            return None
        if not run.claim_trainer(self.worker.key, settings.LEASE_SECONDS):
            return None
        if leaves:
            self._make_way(leaves)
        return self._open(run)

    def _is_elsewhere(self, run: Run) -> bool:
        """Whether another trainer held it when it was read; only a claim decides."""
        if run.lease_until is None or run.lease_owner == self.worker.key:
            return False
        return run.lease_until > timezone.now()

    def _open(self, run: Run) -> Desk:
        self.keeper.hold(run, run.fence)
        desk = self.desks[run.pk] = desk_for(run)
        desk.open()
        log.info("run_taken", run=run, fence=run.fence, step=run.step)
        return desk

    def _has_room(self, run: Run) -> bool:
        if len(self.desks) < settings.TRAINERS_PER_WORKER:
            return True
        if run.pk not in self.sizes:
            has_adapters = run.settings.lora is not None
            self.sizes[run.pk] = expected_bytes(Path(run.policy.folder), has_adapters)
        return residence.fits(self._resident_bytes(), self.sizes[run.pk])

    def _resident_bytes(self) -> int:
        built = {run: desk.host.bytes for run, desk in self.desks.items()}
        self.sizes |= {run: size for run, size in built.items() if size}
        return sum(self.sizes.get(run, 0) for run in self.desks)

    def _who_makes_way(self, due: Collection[int]) -> Desk | None:
        """One not live, else the least recently used without work, else one that had its turn."""
        now = time.monotonic()
        may = [desk for desk in self.desks.values() if _may_leave(desk, due, now)]
        may.sort(key=lambda desk: (desk.run.is_live, desk.run.pk in due, desk.used_at))
        return may[0] if may else None

    def _made_way_lately(self, run: Run) -> bool:
        """No trainer is built more than once in the time of a turn."""
        built = self.made_way.get(run.pk)
        return built is not None and time.monotonic() - built < settings.TRAINER_TURN_SECONDS

    def _make_way(self, desk: Desk) -> None:
        log.info("run_makes_way", run=desk.run, step=desk.run.step)
        if desk.run.is_live:
            self.made_way[desk.run.pk] = desk.taken_at
        self._leave(desk.run, keeps=True)

    def _prepare(self, running: list[Run]) -> None:
        """Load one run whose groups are being sampled or scored, if a seat is free."""
        if len(self.desks) >= settings.TRAINERS_PER_WORKER:
            return
        away = [run for run in running if run.pk not in self.desks and not self._is_elsewhere(run)]
        away = [run for run in away if not self._made_way_lately(run)]
        soon = soon_among(away) if away else set()
        if run := next((run for run in away if run.pk in soon), None):
            self._guarded(run, lambda: bool(self._desk_for(run)))

    def _trim(self, due: Collection[int]) -> None:
        """Models grow with their first update; the least recently used makes way then."""
        if len(self.desks) <= settings.TRAINERS_PER_WORKER:
            return
        is_too_much = self._resident_bytes() > residence.bound()
        if is_too_much and (desk := self._who_makes_way(due)):
            self._make_way(desk)

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, run: Run) -> None:
        """It has nothing to do, and says what it waits for; without a seat once a second."""
        if run.pk in self.keeper.lost:
            self._leave(run)
        if desk := self.desks.get(run.pk):
            self._guarded(run, desk.wait)
        elif not self._is_elsewhere(run) and self._looks_again(run):
            self._say(run, cause_of_waiting(run))

    def _looks_again(self, run: Run) -> bool:
        """Once a second: what a run waits for takes several statements to find out."""
        now = time.monotonic()
        if now - self.said_at.get(run.pk, 0.0) <= CAUSE_SECONDS:
            return False
        self.said_at[run.pk] = now
        return True

    def _say_no_seat(self, run: Run) -> None:
        if self._made_way_lately(run):
            why = built_lately(settings.TRAINER_TURN_SECONDS)
        else:
            held = Run.objects.filter(lease_until__gte=Now())  # by all trainers, which say the same
            why = seat_wanted(run, list(held.only("slug", "project_id")))
        self._say(run, f"a trainer seat: {why}")

    def _say(self, run: Run, cause: str) -> None:
        """Not while a trainer holds the run: then that one says it."""
        if (words := cause[:200]) != run.waiting_on:
            free = Q(lease_until=None) | Q(lease_until__lt=Now())
            waiting = Run.objects.filter(free, pk=run.pk, state=Run.State.RUNNING)
            waiting.update(waiting_on=words)

    def _idle_words(self) -> str:
        return "takes nothing, as it was told" if self.worker.takes_nothing else "waiting for a run"

    # -- leaving -----------------------------------------------------------------------------------

    def _leave_ended(self, running: set[int]) -> None:
        """Paused runs keep their place while nobody needs it; ended ones go."""
        away = [desk for run_id, desk in self.desks.items() if run_id not in running]
        known = Run.objects.filter(pk__in=[desk.run.pk for desk in away])
        states = dict(known.values_list("pk", "state")) if away else {}
        for desk in away:
            desk.run.state = states.get(desk.run.pk, Run.State.STOPPED)
            if desk.run.state in Run.ENDED or desk.run.pk in self.keeper.lost:
                self._leave(desk.run)

    def _leave_all(self) -> None:
        for desk in list(self.desks.values()):
            self._leave(desk.run, keeps=True)

    def _leave(self, run: Run, keeps: bool = False) -> None:
        """Give the run up; `keeps`: with a checkpoint, so that nothing is made again.

        While the database is away the lease cannot be released, and simply runs out.
        """
        desk = self.desks.pop(run.pk, None)
        if desk and keeps:
            self._keep(desk)
        self.keeper.let_go(run)
        if desk:
            try:
                desk.leave()
            except OperationalError as error:
                log.warning("lease_not_released", run=run, error=str(error).strip())

    def _keep(self, desk: Desk) -> None:
        """Without a checkpoint the next trainer replays some updates; nothing else is lost."""
        try:
            desk.keep()
        except Exception as error:
            log.warning("checkpoint_not_written", run=desk.run, error=str(error).strip())

    def _pause(self, run: Run, error: Exception) -> None:
        try:
            run.pause(reason=f"training failed: {type(error).__name__}: {error}"[:500])
        except NotPossible:
            log.info("run_not_live", run=run)

    def stop(self) -> None:
        """Leases are kept meanwhile: a large checkpoint takes longer than one lasts."""
        for desk in list(self.desks.values()):
            self.keeper.doing = f"stops; writing what is left of {desk.run.slug}"
            self._leave(desk.run, keeps=True)
        self.keeper.stop()
        self.worker.stop()


def desk_for(run: Run) -> Desk:
    plan = run.settings
    kind = (
        LessonDesk if plan.algorithm.learns_from_lessons else Desk if plan.samples else ReplayDesk
    )
    return kind(run, run.fence)


def _may_leave(desk: Desk, due: Collection[int], now: float) -> bool:
    if not desk.run.is_live:
        return True
    if desk.run.pk not in due:
        return now - desk.used_at >= QUIET_SECONDS
    return now - desk.taken_at >= settings.TRAINER_TURN_SECONDS


def _doing(desk: Desk) -> str:
    return f"waiting for {desk.run.waiting_on}" if desk.idle else f"step {desk.run.step}"
