"""Chats at an explorer: the weights that it has loaded for chats, beside the engines of runs."""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Min
from django.db.models.functions import Now

from apps.policies.transfer.weights_request import NotFetched
from apps.rollouts.models import ChatTurn
from apps.rollouts.models.chats import ChatSubject
from apps.runs.models import Worker
from workers import memory_budget
from workers.engines.interface import EngineDied
from workers.explorer.chat_session import ChatSession
from workers.explorer.chat_weights import find_chat_weights
from workers.explorer.weights import UNFIT

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.1
ELSEWHERE_SECONDS = 0.5  # head start of an explorer that has the version loaded already
PATIENCE_SECONDS = 5.0  # before a run has to make room
IDLE_SECONDS = 300.0  # without a question before an engine is given back
IN_TURN_SECONDS = 10.0  # the same, if a trainer waits for this GPU


class Chats:
    """The chat sessions of an explorer. Not thread-safe: only the explorer's loop uses it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.sessions: dict[ChatSubject, ChatSession] = {}
        self.kept_at = self.looked_at = 0.0
        self.wants_room = False  # a turn has waited long, and there is no room

    def serve(self, has_room: Callable[[], bool], timeout: float) -> bool:
        """Do one round of the loop; return whether anything is in progress.

        `has_room()` tells whether one more engine may be loaded here now. `timeout` is the number
        of seconds to wait for the engines' output.
        """
        now = time.monotonic()
        if now - self.kept_at > settings.LEASE_SECONDS / 4:
            self._keep_leases()
            self.kept_at = now
        if now - self.looked_at > LOOK_SECONDS:
            self._take_turns(has_room)
            self._stop_requested_turns()
            self._close_idle_sessions(now)
            self.looked_at = now
        busy = [session for session in self.sessions.values() if not session.is_idle]
        for session in busy:
            self._guarded(session, timeout)
        return bool(busy)

    def _take_turns(self, has_room: Callable[[], bool]) -> None:
        """Claim turns for loaded weights, and load others where there is room."""
        wants_room = False
        # Answers in progress are finished, unless this worker is quarantined.
        if self.worker.takes_nothing:
            if self.worker.order == Worker.Order.QUARANTINE:
                self.stop()
            while self.give_up_one():
                pass
            self.wants_room = False
            return
        due_turns = (
            ChatTurn.objects.due()
            .order_by()
            .values("chat__weight_version", "chat__policy")
            .annotate(first=Min("requested_at"), oldest=Min("pk"))
        )
        waits = due_turns.annotate(
            elsewhere=Now() - timedelta(seconds=ELSEWHERE_SECONDS),
            patience=Now() - timedelta(seconds=PATIENCE_SECONDS),
        )
        for row in waits.order_by("oldest"):
            subject = ChatSubject(row["chat__weight_version"], row["chat__policy"])
            if subject not in self.sessions:
                if row["first"] > row["elsewhere"]:
                    continue
                if not has_room():
                    wants_room |= row["first"] < row["patience"]
                    continue
            self._claim(subject)
        self.wants_room = wants_room  # set last: `has_room` reads the previous turn's value

    def _claim(self, subject: ChatSubject) -> None:
        turns = ChatTurn.objects.claim(
            subject, self.worker.key, settings.LEASE_SECONDS, self.worker
        )
        if not turns:
            return
        if subject not in self.sessions:
            weights = find_chat_weights(subject)
            if weights is None:  # deleted with its turns since they were claimed
                return
            self.sessions[subject] = ChatSession.take(weights)
            log.info("chat_loading", **weights.log_fields)
        self.sessions[subject].turns += turns

    def _guarded(self, session: ChatSession, timeout: float) -> None:
        try:
            session.settle(timeout)
            if session.is_ready:
                session.begin()
                session.collect(timeout)
        except EngineDied as death:
            self._drop(session, f"the engine died: {death}")
        except (*UNFIT, NotFetched) as refusal:
            self._drop(session, f"{session.weights.title} cannot be loaded: {refusal}")

    def _drop(self, session: ChatSession, reason: str) -> None:
        log.error("chat_engine_lost", reason=reason, **session.weights.log_fields)
        session.fail(reason)
        self._leave(session)

    def _leave(self, session: ChatSession) -> None:
        del self.sessions[session.weights.subject]
        session.stop()
        memory_budget.release_unused()

    def _keep_leases(self) -> None:
        for session in self.sessions.values():
            claims = [turn.claimed for turn in session.held]
            renewed_ids = ChatTurn.objects.renew(claims, settings.LEASE_SECONDS)
            if lost := {claim.pk for claim in claims} - renewed_ids:
                session.leave_those(lost)

    def _stop_requested_turns(self) -> None:
        held_ids = [turn.pk for session in self.sessions.values() for turn in session.held]
        if not held_ids:
            return
        turn_ids = set(
            ChatTurn.objects.open()
            .filter(pk__in=held_ids, stop_wanted=True)
            .values_list("pk", flat=True)
        )
        for session in self.sessions.values() if turn_ids else ():
            session.stop_those(turn_ids)

    def _close_idle_sessions(self, now: float) -> None:
        for session in list(self.sessions.values()):
            patience = IDLE_SECONDS if session.gpu is None else IN_TURN_SECONDS
            if session.is_idle and now - session.used_at > patience:
                self._leave(session)

    def give_up_one(self, quiet_s: float = 0.0) -> bool:
        """Free the least recently used engine that has been idle for this long."""
        since = time.monotonic() - quiet_s
        sessions = self.sessions.values()
        quiet = [session for session in sessions if session.is_idle and session.used_at <= since]
        idle = sorted(quiet, key=lambda session: session.used_at)
        if idle:
            self._leave(idle[0])
        return bool(idle)

    def stop(self) -> None:
        for session in list(self.sessions.values()):
            self._leave(session)
