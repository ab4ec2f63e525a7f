"""Chats at an explorer: which versions it has loaded for those who ask, beside the seats of the runs."""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Min
from django.db.models.functions import Now

from apps.policies.transfer.wanted import NotFetched
from apps.rollouts.models import ChatTurn
from apps.rollouts.models.chats import MOST_ATTEMPTS
from apps.runs.models import WeightVersion, Worker
from workers.engines.interface import EngineDied
from workers.explorer.chair import Chair
from workers.explorer.weights import UNFIT

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.1
ELSEWHERE_SECONDS = 0.5  # that another explorer has which holds the version already
PATIENCE_SECONDS = 5.0  # after which a run makes room
IDLE_SECONDS = 300.0  # without a question after which an engine is given back


class Chats:
    """Not thread-safe: the explorer's loop is its only user."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.chairs: dict[int, Chair] = {}
        self.kept_at = self.looked_at = 0.0
        self.wants_room = False  # somebody has waited long, and every place is taken

    def serve(self, has_room: Callable[[], bool], timeout: float) -> bool:
        """One turn of the loop; whether anything is under way. `has_room()`: whether one more engine may be loaded here now.

        `timeout`: seconds that the engine's news may be waited for.
        """
        now = time.monotonic()
        if now - self.kept_at > settings.LEASE_SECONDS / 4:
            self._keep_leases()
            self.kept_at = now
        if now - self.looked_at > LOOK_SECONDS:
            self._take_turns(has_room)
            self._stop_what_is_wished()
            self._let_go_of_idle(now)
            self.looked_at = now
        busy = [chair for chair in self.chairs.values() if not chair.is_idle]
        for chair in busy:
            self._guarded(chair, timeout)
        return bool(busy)

    def _take_turns(self, has_room: Callable[[], bool]) -> None:
        """Claim what is asked of versions that are here, and load others where there is room."""
        wants_room = False
        if self.worker.takes_nothing:  # what is being answered goes on to its end, unless nobody shall trust it
            if self.worker.order == Worker.Order.QUARANTINE:
                self.stop()
            while self.give_up_one():
                pass
            self.wants_room = False
            return
        due = ChatTurn.objects.due().order_by().values("chat__weight_version").annotate(first=Min("asked_at"), oldest=Min("pk"))
        waited = {"elsewhere": ELSEWHERE_SECONDS, "patience": PATIENCE_SECONDS}
        due = due.annotate(**{name: Now() - timedelta(seconds=seconds) for name, seconds in waited.items()})
        for row in due.order_by("oldest"):
            version = row["chat__weight_version"]
            if version not in self.chairs:
                if row["first"] > row["elsewhere"]:
                    continue
                if not has_room():
                    wants_room |= row["first"] < row["patience"]
                    continue
            self._claim(version)
        self.wants_room = wants_room  # not earlier: `has_room` reads the value of the last turn

    def _claim(self, version: int) -> None:
        turns = ChatTurn.objects.claim(version, self.worker.key, settings.LEASE_SECONDS, self.worker)
        for turn in [turn for turn in turns if turn.attempts > MOST_ATTEMPTS]:
            turns.remove(turn)
            turn.fail(f"{MOST_ATTEMPTS} explorers went away while they answered it")
        if not turns:
            return
        if version not in self.chairs:
            row = WeightVersion.objects.select_related("run__policy").get(pk=version)
            self.chairs[version] = Chair.take(row)
            log.info("chat_loading", run=row.run, weight_version=row.version)
        self.chairs[version].turns += turns

    def _guarded(self, chair: Chair, timeout: float) -> None:
        try:
            chair.settle(timeout)
            if chair.is_ready:
                chair.begin()
                chair.collect(timeout)
        except EngineDied as death:
            self._drop(chair, f"the engine died: {death}")
        except (*UNFIT, NotFetched) as refusal:
            self._drop(chair, f"version {chair.version.version} cannot be loaded: {refusal}")

    def _drop(self, chair: Chair, reason: str) -> None:
        log.error("chat_engine_lost", run=chair.version.run, weight_version=chair.version.version, reason=reason)
        chair.fail(reason)
        self._leave(chair)

    def _leave(self, chair: Chair) -> None:
        del self.chairs[chair.version.pk]
        chair.stop()

    def _keep_leases(self) -> None:
        for chair in self.chairs.values():
            held = chair.held
            if lost := {turn.pk for turn in held} - ChatTurn.keep(held, settings.LEASE_SECONDS):
                chair.leave_those(lost)

    def _stop_what_is_wished(self) -> None:
        held = [turn.pk for chair in self.chairs.values() for turn in chair.held]
        if not held:
            return
        wanted = set(ChatTurn.objects.open().filter(pk__in=held, stop_wanted=True).values_list("pk", flat=True))
        for chair in self.chairs.values() if wanted else ():
            chair.stop_those(wanted)

    def _let_go_of_idle(self, now: float) -> None:
        for chair in [one for one in self.chairs.values() if one.is_idle and now - one.used_at > IDLE_SECONDS]:
            self._leave(chair)

    def give_up_one(self, quiet_s: float = 0.0) -> bool:
        """Free the least recently used engine that has had nothing to do for this long."""
        since = time.monotonic() - quiet_s
        chairs = self.chairs.values()
        quiet = [chair for chair in chairs if chair.is_idle and chair.used_at <= since]
        idle = sorted(quiet, key=lambda chair: chair.used_at)
        if idle:
            self._leave(idle[0])
        return bool(idle)

    def stop(self) -> None:
        for chair in list(self.chairs.values()):
            self._leave(chair)
