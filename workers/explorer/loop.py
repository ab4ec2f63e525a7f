"""The explorer's loop over all runs: renew leases, load new weights, open groups, collect output.

An engine is built only for a run that has something to sample now. Runs that were served least
recently come first. An engine stays loaded while there is room: ENGINES_PER_WORKER, and more if
memory allows (workers.memory_budget). When there is no room, the engine that was idle longest is
unloaded. When no engine is idle, one that was held long enough is unloaded for a run that nobody
serves (workers.explorer.time_sharing). Requests stay in flight between slices.
"""

import functools
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

import structlog
from django.conf import settings
from django.db import OperationalError
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from jinja2 import TemplateError

from apps.accounts.compiled_queries import compiled_query
from apps.feedback.interventions import list_pending_interventions
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.tasks import build_task_filter
from apps.policies.models import Policy
from apps.rollouts.models import ChatTurn, Group
from apps.rollouts.serving import leave_unheard
from apps.rollouts.task_filter import NothingToDraw
from apps.runs.models import NotPossible, Run, StaleFence, Worker
from apps.streaming import worker_notifications
from apps.tasksets.limits import BadLimits
from workers import gpu_turns, memory_budget, weight_folders
from workers.engines.interface import EngineDied
from workers.engines.vllm_options import UnsupportedOption
from workers.explorer.chat_tokenizer import UnsupportedDialogue
from workers.explorer.chats import Chats
from workers.explorer.prompt_lengths import leave_out_too_long, sieve_of_lengths
from workers.explorer.runs_to_explore import estimate_engine_bytes, list_runs_to_explore, rests_now
from workers.explorer.session import RunSession
from workers.explorer.time_sharing import TimeSharing
from workers.explorer.usage_meter import UsageMeter
from workers.explorer.weights import version_row
from workers.leases import renewed
from workers.vision.image_processor import Unreadable
from workers.waiting_reasons import WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS, all_taken, built_lately

log = structlog.get_logger(__name__)
DRAIN_SECONDS = 0.05
LOOK_SECONDS = 0.25  # between two looks for work that no notification causes
RUNG_SECONDS = 0.1  # between two that a notification causes, while rollouts are in flight
REPORT_SECONDS = 2.0
ROLLOUTS_IN_FLIGHT = 256
SILENCE_SECONDS = 30.0
HEALTH_SECONDS = 10.0  # a long prompt delays output, but not health checks
# How long a run without work keeps its engine, since more may be on its way. One that serves
# callers keeps it for ENGINE_TURN_SECONDS.
QUIET_SECONDS = 5.0
DEATHS_ALLOWED = 3
DEATHS_WITHIN_SECONDS = 600.0


class ExplorerLoop:
    """Loop of one explorer worker, for the life of its process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.sessions: dict[int, RunSession] = {}
        self.chats = Chats(worker)
        self.deaths: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=DEATHS_ALLOWED))
        self.meter = UsageMeter(worker.key)
        self.time_sharing = TimeSharing()
        # All keyed by the run's id.
        self.due: set[int] = set()  # runs with something to sample now
        self.without_engine: dict[int, str] = {}  # due runs without an engine here, and why
        self.awaited: dict[int, str] = {}  # runs without local weights, and what they wait for
        # When the engine that was unloaded for another was built.
        self.made_way: dict[int, float] = {}
        self.sizes: dict[int, int] = {}  # bytes of an engine, by its policy's id
        self.kept_at = self.looked_at = self.reported_at = 0.0
        self.was_rung = False  # while only callers were waited for
        self.has_unread_notification = False  # whose cause was not looked for yet

    def serve(self) -> bool:
        """Do one round of the loop; return whether anything is in flight or arrived."""
        now = time.monotonic()
        if self.worker.order == Worker.Order.QUARANTINE:
            self._close_all_sessions()
        if now - self.kept_at > settings.LEASE_SECONDS / 4:
            self._keep_leases()
            self.kept_at = now
        is_notified = self._is_notified(now)
        looks = self._is_to_look(now)
        if looks:
            self._look_for_work()
            self.looked_at = now
            self.has_unread_notification = False
            self._do_what_people_ask()
        self._release_overdue()
        busy = [session for session in self.sessions.values() if session.rollouts]
        self.meter.record({session.run.pk: session.awaits_engine for session in busy})
        for session in busy:
            session.used_at = now
            self._collect(session, is_notified)
        if self.was_rung and not looks:
            self._do_what_people_ask()  # usually it is an observation, which does not wait for this
        has_chats = self.chats.serve(self._make_room_for_chat, 0.0 if busy else DRAIN_SECONDS)
        self._report(now)
        flying = [session for session in self.sessions.values() if session.rollouts]
        is_called = flying and all(session.waits_for_callers for session in flying)
        self.was_rung = bool(
            is_called and not has_chats and worker_notifications.wait("explore", DRAIN_SECONDS)
        )
        return bool(busy) or has_chats

    # -- work

    def _is_notified(self, now: float) -> bool:
        """Tell whether a notification arrived since this was asked last.

        It is asked at once where callers may have posted an observation, otherwise at intervals.
        """
        if not (
            now - self.looked_at > RUNG_SECONDS
            or any(session.has_callers for session in self.sessions.values())
        ):
            return False
        has_arrived = worker_notifications.has_arrived("explore")
        self.has_unread_notification |= has_arrived
        return has_arrived

    def _is_to_look(self, now: float) -> bool:
        """Tell whether to ask the database what is to be done.

        With nothing in flight, this turn follows a notification: look for its cause at once.
        Otherwise a notification that came meanwhile says that something has changed.
        """
        since = now - self.looked_at
        if not any(session.rollouts for session in self.sessions.values()):
            return True
        return since > LOOK_SECONDS or (since > RUNG_SECONDS and self.has_unread_notification)

    def _look_for_work(self) -> None:
        running = _runs_in_turn()
        self._leave_ended({run.pk for run in running})
        if self.worker.takes_nothing:  # rollouts in flight are finished
            while self.chats.give_up_one() or self._give_up_an_engine(at_once=True):
                pass
            running = [run for run in running if run.pk in self.sessions]
        self.due = list_runs_to_explore(running)
        self.without_engine = {}
        self.awaited = {}
        weight_folders.forget_all_but({run.pk for run in running} | self.sessions.keys())
        for run in running:
            if session := self._session_for(run):
                self._guarded(session, functools.partial(self._fill, session, run))
        self._rest_engines()
        waiting = [run for run in running if run.pk in self.without_engine]
        self.time_sharing.look(self.sessions, waiting, time.monotonic())

    def _rest_engines(self) -> None:
        """Leave GPUs that engines have in turns to the trainers, where nothing is being sampled."""
        for session in list(self.sessions.values()):
            if session.holds_gpu and not session.rollouts:
                with self._all_kept():
                    self._guarded(session, session.rest)

    def _fill(self, session: RunSession, run: Run) -> None:
        session.reread(run)
        is_newer = session.version is None or run.published_version > session.version
        if (is_newer or run.pk in self.due) and not session.take_gpu():
            self.awaited[run.pk] = gpu_turns.TRAINER_IS_THERE
            return
        if is_newer and not self._has_weights(run):
            session.weights.acknowledge()
            return
        with self._all_kept() if is_newer else nullcontext():
            session.weights.follow(run.published_version)
        if run.pk not in self.due:
            return
        room = (ROLLOUTS_IN_FLIGHT - session.places) // session.plan.group_size
        if self.worker.takes_nothing or self._yields_its_place(session):
            return
        if session.environment_rests:
            self.due.discard(run.pk)
            return
        if room < 1 or session.version != run.published_version:
            return
        lease = settings.LEASE_SECONDS
        groups = Group.objects.claim(Group.State.SAMPLING, self.worker.key, lease, room, run)
        if session.plan.serve:
            groups = leave_unheard(groups)  # its callers open them
        else:
            groups += self._open_groups(session, run, room - len(groups))
        if groups:
            Run.objects.filter(pk=run.pk).update(explored_at=Now())
            self._submit(session, groups)

    def _open_groups(self, session: RunSession, run: Run, room: int) -> list[Group]:
        """Return new groups.

        None, and pause the run, when its task operators reject all or fail.
        """
        assert session.version is not None  # the newest one, as was checked before
        try:
            with nullcontext() if run.groups_opened else self._all_kept():
                leave_out_too_long(session)
            sieve = sieve_of_lengths(session, build_task_filter(session.plan))
            return Group.open(
                run, self.worker.key, settings.LEASE_SECONDS, room, session.version, sieve
            )
        except (NothingToDraw, OperatorFailed) as why:
            self._pause(run, str(why))
            return []

    def _submit(self, session: RunSession, groups: list[Group]) -> None:
        if session.is_asleep:
            with self._all_kept():
                session.wake()
        try:
            session.submit(groups)
        except (UnsupportedDialogue, Unreadable, BadLimits, TemplateError) as why:
            self._pause(session.run, str(why))
        else:
            log.info(
                "groups_started",
                run=session.run,
                groups=[group.pk for group in groups],
                weight_version=session.version,
            )

    def _session_for(self, run: Run) -> RunSession | None:
        """Return the run's session; a new one where it has work and room exists or can be made."""
        if run.pk in self.sessions:
            return self.sessions[run.pk]
        if run.pk not in self.due and not self._may_come_early(run):
            return None
        if rests_now(run) or not self._has_weights(run):
            return None
        if self._had_turn_recently(run) or not self._make_room(self._bytes_of(run.policy)):
            self._note_no_engine(run)
            return None
        gpu = gpu_turns.turn_for(run.settings)
        if gpu and not gpu.take():
            self.awaited[run.pk] = gpu_turns.TRAINER_IS_THERE
            return None
        try:
            with self._all_kept():
                self.sessions[run.pk] = RunSession.take(run, self.worker, gpu)
            self.time_sharing.begin(run.pk, time.monotonic())
            self._record_waiting(run.pk, "")
        except EngineDied as death:
            self._bury(run, str(death))
        except (LookupError, UnsupportedOption) as missing:
            self._pause(run, str(missing))
        finally:
            if gpu and run.pk not in self.sessions:
                gpu.give_back()
        return self.sessions.get(run.pk)

    def _has_weights(self, run: Run) -> bool:
        """Tell whether the run's current weights are on this machine.

        Otherwise start to fetch them.
        """
        if not weight_folders.are_fetched():
            return True
        version = version_row(run, run.published_version)
        if why := weight_folders.describe_missing_weights(run, version):
            self.awaited[run.pk] = f"{WAITS_FOR_WEIGHTS}: {why}"
        return not why

    def _note_no_engine(self, run: Run) -> None:
        holders = [session.run for session in self.sessions.values()]
        why = all_taken(run, holders) if holders else "all are taken by chats"
        if self._had_turn_recently(run):
            why = built_lately(settings.ENGINE_TURN_SECONDS)
        self.without_engine[run.pk] = f"{WAITS_FOR_ENGINE}: {why}"

    def _record_waiting(self, run: int, cause: str) -> None:
        """Record what an evaluation waits for; for other runs the trainer does so."""
        runs = Run.objects.filter(pk=run, state=Run.State.RUNNING, is_evaluation=True)
        runs.exclude(waiting_on=cause[:200]).update(waiting_on=cause[:200])

    def _may_come_early(self, run: Run) -> bool:
        """Tell whether a serving run may get an engine before its first call: if there is room."""
        if run.settings.serve is None or self._had_turn_recently(run) or self._is_alone():
            return False
        return self._engines < settings.ENGINES_PER_WORKER

    def _had_turn_recently(self, run: Run) -> bool:
        """Tell whether the run's unloaded engine was built less than a turn ago.

        No engine is built more than once in the time of a turn.
        """
        built = self.made_way.get(run.pk)
        return built is not None and time.monotonic() - built < settings.ENGINE_TURN_SECONDS

    def _make_room(self, more: float) -> bool:
        """Unload idle engines, chats first, until one of `more` bytes fits.

        Return whether it does.
        """
        while self._is_full(more):
            if not self.chats.give_up_one(QUIET_SECONDS) and not self._give_up_an_engine():
                return False
        return True

    def _make_room_for_chat(self) -> bool:
        """Unload an idle engine where a chat engine does not fit; return whether it may be loaded.

        Its size is not known yet: that of the largest engine here is assumed.
        """
        largest = max(
            (self._bytes_of(session.run.policy) for session in self.sessions.values()), default=0
        )
        if not self._is_full(largest):
            return True
        gave_up = self.chats.give_up_one() or self._give_up_an_engine()
        return gave_up and not self._is_alone()

    def _is_full(self, more: float) -> bool:
        """Tell whether an engine of `more` bytes does not fit beside those that are loaded."""
        if self._is_alone():
            return True
        if self._engines < settings.ENGINES_PER_WORKER:
            return False
        policies = [session.run.policy for session in self.sessions.values()]
        policies += [session.weights.policy for session in self.chats.sessions.values()]
        return not memory_budget.fits(sum(map(self._bytes_of, policies)), more)

    @property
    def _engines(self) -> int:
        return len(self.sessions) + len(self.chats.sessions)

    def _is_alone(self) -> bool:
        """Tell whether an engine takes the whole GPU, as a vLLM does; small engines share a worker.

        One that is being loaded may become a vLLM.
        """
        engines = [
            *(session.engine for session in self.sessions.values()),
            *(session.engine for session in self.chats.sessions.values()),
        ]
        return any(engine is None or engine.name == "vllm" for engine in engines)

    def _bytes_of(self, policy: Policy) -> int:
        if not self.sizes.get(policy.pk):  # 0: the weights were not here yet
            self.sizes[policy.pk] = estimate_engine_bytes(policy)
        return self.sizes[policy.pk]

    def _give_up_an_engine(self, at_once: bool = False) -> bool:
        """Free the least recently used engine that may go, or any idle one with `at_once`."""
        now = time.monotonic()
        idle = [session for session in self.sessions.values() if not session.rollouts]
        may = [session for session in idle if at_once or self._may_leave(session, now)]
        if may:
            session = min(
                may,
                key=lambda session: (
                    not self.time_sharing.is_over(session.run.pk),
                    session.used_at,
                ),
            )
            if session.run.is_live:
                self.made_way[session.run.pk] = self.time_sharing.taken_at[session.run.pk]
            log.info("engine_yielded", run=session.run)
            self._leave(session)
        return bool(may)

    def _may_leave(self, session: RunSession, now: float) -> bool:
        if not session.run.is_live or self._yields_its_place(session):
            return True
        patience = settings.ENGINE_TURN_SECONDS if session.plan.serve else QUIET_SECONDS
        return session.run.pk not in self.due and now - session.used_at >= patience

    def _yields_its_place(self, session: RunSession) -> bool:
        """Tell whether this session opens no more groups because others wait for its place.

        Its turn is over, or a person has waited long for a chat.
        """
        smallest = min(self.sessions.values(), key=lambda candidate: len(candidate.rollouts))
        return self.time_sharing.is_over(session.run.pk) or (
            self.chats.wants_room and session is smallest
        )

    def _do_what_people_ask(self) -> None:
        homes = {
            rollout.rollout_id: session
            for session in self.sessions.values()
            for rollout in session.rollouts.values()
        }
        for intervention in list_pending_interventions(list(homes)) if homes else ():
            session = homes[intervention.rollout_id]
            if self.sessions.get(session.run.pk) is session:  # an intervention may have replaced it
                self._guarded(session, functools.partial(session.carry_out, intervention))

    def _release_overdue(self) -> None:
        for session in list(self.sessions.values()):
            self._guarded(session, session.release_overdue)

    def _collect(self, session: RunSession, is_notified: bool) -> None:
        released_before = len(session.partial.left)
        self._guarded(session, lambda: session.collect(DRAIN_SECONDS, is_notified))
        if len(session.partial.left) > released_before:
            self.looked_at = 0.0  # partial rollouts are resumed at once, where there is room

    # -- leases and the end

    def _keep_leases(self) -> None:
        for session in self.sessions.values():
            claims = session.claims
            renewed_ids = Group.objects.renew(claims, settings.LEASE_SECONDS)
            lost = {claim.pk for claim in claims} - renewed_ids
            if lost:
                log.warning("leases_lost", run=session.run, groups=sorted(lost))
                session.abandon(lost)
        for session in list(self.sessions.values()):
            check = functools.partial(session.require_alive, SILENCE_SECONDS, HEALTH_SECONDS)
            self._guarded(session, check)

    def _all_kept(self) -> AbstractContextManager[None]:
        """Renew all leases and the heartbeat during a load, which takes vLLM a minute."""
        claims = [claim for session in self.sessions.values() for claim in session.claims]
        turns = [turn.claimed for chat in self.chats.sessions.values() for turn in chat.held]

        def keep() -> None:
            self.worker.beat()
            Group.objects.renew(claims, settings.LEASE_SECONDS)
            ChatTurn.objects.renew(turns, settings.LEASE_SECONDS)

        return renewed(keep)

    def _leave_ended(self, running: set[int]) -> None:
        """Close sessions of ended runs at once, those of paused runs when their rollouts are in."""
        away = [session for run_id, session in self.sessions.items() if run_id not in running]
        rows = Run.objects.filter(pk__in=[session.run.pk for session in away])
        states = dict(rows.values_list("pk", "state")) if away else {}
        for session in away:
            # A deleted run has no row.
            session.run.state = states.get(session.run.pk, Run.State.STOPPED)
            if session.run.state in Run.ENDED:
                self._leave(session)

    def _close_all_sessions(self) -> None:
        """Abandon all sessions and write nothing more: other workers hold the fenced groups now."""
        for session in list(self.sessions.values()):
            Group.objects.release(session.claims)  # groups that it claimed before it read the order
            session.abandon({rollout.claim.pk for rollout in session.rollouts.values()})
            self._leave(session)
        self.chats.stop()

    def _leave(self, session: RunSession) -> None:
        del self.sessions[session.run.pk]
        self.time_sharing.end(session.run.pk)
        session.leave()
        memory_budget.release_unused()

    # -- errors

    def _guarded(self, session: RunSession, work: Callable[[], object]) -> None:
        """Do work of this session; if its engine died, free its groups and replace it."""
        try:
            work()
        except EngineDied as death:
            log.error("engine_died", run=session.run, reason=str(death))
            self._free_groups(session, str(death))
            self._leave(session)
            self._bury(session.run, str(death))

    def _free_groups(self, session: RunSession, reason: str) -> None:
        fences = {claim.pk: claim.fence for claim in session.claims}
        for group in Group.objects.filter(pk__in=fences):
            try:
                if group.fence == fences[group.pk]:
                    group.fail(f"engine died: {reason}")
            except StaleFence:
                continue  # taken over meanwhile: the other explorer owns it

    def _bury(self, run: Run, reason: str) -> None:
        """Count the engine's death; pause the run, with the reason, when its engines keep dying."""
        deaths = self.deaths[run.pk]
        deaths.append(time.monotonic())
        if len(deaths) == DEATHS_ALLOWED and deaths[-1] - deaths[0] < DEATHS_WITHIN_SECONDS:
            deaths.clear()
            minutes = DEATHS_WITHIN_SECONDS / 60
            self._pause(
                run,
                f"the engine died {DEATHS_ALLOWED} times within {minutes:.0f} minutes: {reason}",
            )

    def _pause(self, run: Run, reason: str) -> None:
        try:
            run.pause(reason=reason[:500])
        except NotPossible:
            log.info("run_not_paused", run=run)

    def _report(self, now: float) -> None:
        if now - self.reported_at < REPORT_SECONDS:
            return
        flying = [session for session in self.sessions.values() if session.rollouts]
        words = {
            session.run.pk: f"{len(session.rollouts)} rollouts, {session.rate():.0f} tok/s"
            for session in flying
        }
        doing = [f"{session.run.slug}: {words[session.run.pk]}" for session in flying]
        waiting = {**self.awaited, **self.without_engine}
        words = {**waiting, **words}
        for run, why in waiting.items():
            self._record_waiting(run, why.removeprefix("waiting for "))
        doing += [
            f"{session.weights.source}: {len(session.held)} chats"
            for session in self.chats.sessions.values()
            if session.held
        ]
        idle = (
            "draining: takes no new work"
            if self.worker.takes_nothing
            else "waiting for room to open groups"
        )
        self.worker.beat("; ".join(doing) or idle, words)
        self.meter.save()
        self.reported_at = now

    def stop(self) -> None:
        with suppress(OperationalError):
            self.meter.save()
            self.chats.stop()
        for session in list(self.sessions.values()):
            with suppress(OperationalError):  # without a database the leases expire
                # Before stopping the engine, which may take longer than a lease.
                Group.objects.release(session.claims)
            self._leave(session)
        weight_folders.stop_fetching()
        self.worker.stop()


@compiled_query
def _runs_in_turn() -> QuerySet[Run]:
    """Return the runs to sample, the one that was sampled least recently first."""
    turns = F("explored_at").asc(nulls_first=True)
    return Run.objects.exploring().select_related("policy", "taskset").order_by(turns, "pk")
