"""The explorer's loop over all runs: keep leases, follow weights, open or adopt groups, collect what was said.

Work first, then a seat: an engine is built only for a run with something to sample now, the least
recently served first. It stays loaded while there is room: ENGINES_PER_WORKER, and beyond that what
memory allows (workers.residence). Where there is no room the engine that was quiet longest makes way.
Where none is quiet, one that was held long enough makes way for a run that nobody serves
(workers.explorer.turns). Requests stay in flight from one slice to the next.
"""

import time
from collections import defaultdict, deque
from contextlib import AbstractContextManager, nullcontext, suppress

import structlog
from django.conf import settings
from django.db import OperationalError
from django.db.models import F
from django.db.models.functions import Now
from jinja2 import TemplateError

from apps.pipelines.applying import OperatorFailed
from apps.pipelines.tasks import sieve_of
from apps.rollouts.models import ChatTurn, Group
from apps.rollouts.serving import leave_unheard
from apps.rollouts.sifting import NothingToDraw
from apps.runs.models import NotPossible, Run, StaleFence, Worker
from apps.streaming import bells
from apps.tasksets.limits import BadLimits
from workers import residence, weight_folders
from workers.engines.interface import EngineDied
from workers.explorer import weights
from workers.explorer.acts import asked_in, do, let_go
from workers.explorer.chats import Chats
from workers.explorer.due import due_among, expected_bytes, rests_now
from workers.explorer.meter import Meter
from workers.explorer.prompt_lengths import leave_out_too_long, sieve_of_lengths
from workers.explorer.seat import Seat
from workers.explorer.speaker import NoDialogue
from workers.explorer.turns import Turns
from workers.leases import kept
from workers.seats import WAITS_FOR_ENGINE, WAITS_FOR_WEIGHTS, built_lately, seat_wanted
from workers.vision.eyes import Unreadable

log = structlog.get_logger(__name__)
DRAIN_SECONDS = 0.05
LOOK_SECONDS = 0.1
REPORT_SECONDS = 2.0
ROLLOUTS_IN_FLIGHT = 256
SILENCE_SECONDS, HEALTH_SECONDS = 30.0, 10.0  # a long prompt keeps an engine silent, but not from answering
# How long a run without work keeps its engine, since more may be on its way. One that serves
# callers keeps it for ENGINE_TURN_SECONDS.
QUIET_SECONDS = 5.0
DEATHS_ALLOWED, DEATHS_WITHIN_SECONDS = 3, 600.0


class Explorer:
    """One per worker process; lives as long as it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.seats: dict[int, Seat] = {}
        self.chats = Chats(worker)
        self.deaths: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=DEATHS_ALLOWED))
        self.meter = Meter(worker.key)
        self.turns = Turns()
        # All by the run's id.
        self.due: set[int] = set()  # has something to sample now
        self.unseated: dict[int, str] = {}  # due, and without an engine here: what it waits for
        self.awaited: dict[int, str] = {}  # whose weights are not here: what it waits for
        self.made_way: dict[int, float] = {}  # when the engine was built that made way for another
        self.sizes: dict[int, int] = {}  # bytes that its engine takes
        self.kept_at = self.looked_at = self.reported_at = 0.0

    def serve(self) -> bool:
        """One turn; says whether anything is in flight or came in."""
        now = time.monotonic()
        if self.worker.order == Worker.Order.QUARANTINE:
            self._let_go_of_all()
        if now - self.kept_at > settings.LEASE_SECONDS / 4:
            self._keep_leases()
            self.kept_at = now
        # With nothing in flight, this turn is a bell's doing: whatever it rang for is looked for at once.
        if now - self.looked_at > LOOK_SECONDS or not any(seat.flights for seat in self.seats.values()):
            self._look_for_work()
            self.looked_at = now
        self._do_what_people_ask()
        busy = [seat for seat in self.seats.values() if seat.flights]
        self.meter.turn({seat.run.pk: seat.awaits_engine for seat in busy})
        for seat in busy:
            seat.used_at = now
            self._collect(seat)
        has_chats = self.chats.serve(self._make_room_for_chat, 0.0 if busy else DRAIN_SECONDS)
        self._report(now)
        flying = [seat for seat in self.seats.values() if seat.flights]
        if flying and not has_chats and all(seat.waits_for_callers for seat in flying):
            bells.wait("explore", DRAIN_SECONDS)
        return bool(busy) or has_chats

    # -- work -------------------------------------------------------------------------------------------------------

    def _look_for_work(self) -> None:
        running = list(
            Run.objects.exploring().select_related("policy", "taskset").order_by(F("explored_at").asc(nulls_first=True), "pk")
        )
        self._leave_ended({run.pk for run in running})
        if self.worker.takes_nothing:  # what is in flight goes on to its end
            while self.chats.give_up_one() or self._give_up_a_seat(at_once=True):
                pass
            running = [run for run in running if run.pk in self.seats]
        self.due, self.unseated, self.awaited = due_among(running), {}, {}
        weight_folders.forget_all_but({run.pk for run in running} | self.seats.keys())
        for run in running:
            if seat := self._seat_for(run):
                self._guarded(seat, lambda: self._fill(seat, run))  # noqa: B023  (called before the loop goes on)
        waiting = [run for run in running if run.pk in self.unseated]
        self.turns.look(self.seats, waiting, time.monotonic())

    def _fill(self, seat: Seat, run: Run) -> None:
        seat.reread(run)
        is_newer = seat.version is None or run.published_version > seat.version
        if is_newer and not self._has_weights(run):
            weights.acknowledge(seat)
            return
        with self._all_kept() if is_newer else nullcontext():
            weights.follow(seat, run.published_version)
        if run.pk not in self.due:
            return
        room = (ROLLOUTS_IN_FLIGHT - seat.places) // seat.plan.group_size
        if self.worker.takes_nothing or self._makes_way(seat):
            return
        if seat.environment_rests:
            self.due.discard(run.pk)
            return
        if room < 1 or seat.version != run.published_version:
            return
        lease = settings.LEASE_SECONDS
        groups = Group.objects.claim(Group.State.SAMPLING, self.worker.key, lease, room, run)
        if seat.plan.serve:
            groups = leave_unheard(groups)  # its callers open them
        else:
            groups += self._opened(seat, run, room - len(groups))
        if groups:
            Run.objects.filter(pk=run.pk).update(explored_at=Now())
            self._submit(seat, groups)

    def _opened(self, seat: Seat, run: Run, room: int) -> list[Group]:
        """New groups; none, and the run pauses, where its operators on tasks leave none or break."""
        try:
            with nullcontext() if run.groups_opened else self._all_kept():
                leave_out_too_long(seat)
            sieve = sieve_of_lengths(seat, sieve_of(seat.plan))
            return Group.open(run, self.worker.key, settings.LEASE_SECONDS, room, seat.version, sieve)
        except (NothingToDraw, OperatorFailed) as why:
            self._pause(run, str(why))
            return []

    def _submit(self, seat: Seat, groups: list[Group]) -> None:
        try:
            seat.submit(groups)
        except (NoDialogue, Unreadable, BadLimits, TemplateError) as why:
            self._pause(seat.run, str(why))
        else:
            log.info("groups_begun", run=seat.run, groups=[group.pk for group in groups], weight_version=seat.version)

    def _seat_for(self, run: Run) -> Seat | None:
        """The run's seat; a new one where it has work and there is, or can be made, room."""
        if run.pk in self.seats:
            return self.seats[run.pk]
        if run.pk not in self.due and not self._may_come_early(run):
            return None
        if rests_now(run) or not self._has_weights(run):
            return None
        if self._made_way_lately(run) or not self._make_room(self._bytes_of(run)):
            self._note_no_seat(run)
            return None
        try:
            with self._all_kept():
                self.seats[run.pk] = Seat.take(run, self.worker)
            self.turns.begin(run.pk, time.monotonic())
            self._say(run.pk, "")
        except EngineDied as death:
            self._bury(run, str(death))
        except LookupError as missing:
            self._pause(run, str(missing))
        return self.seats.get(run.pk)

    def _has_weights(self, run: Run) -> bool:
        """Whether what the run serves now is on this machine; otherwise it is being fetched."""
        if not weight_folders.are_fetched():
            return True
        version = weights.version_row(run, run.published_version)
        if why := weight_folders.missing(run, version):
            self.awaited[run.pk] = f"{WAITS_FOR_WEIGHTS}: {why}"
        return not why

    def _note_no_seat(self, run: Run) -> None:
        holders = [seat.run for seat in self.seats.values()]
        why = seat_wanted(run, holders) if holders else "all are taken by chats"
        if self._made_way_lately(run):
            why = built_lately(settings.ENGINE_TURN_SECONDS)
        self.unseated[run.pk] = f"{WAITS_FOR_ENGINE}: {why}"

    def _say(self, run: int, cause: str) -> None:
        """What an evaluation waits for; of other runs their trainer says it."""
        known = Run.objects.filter(pk=run, state=Run.State.RUNNING, is_evaluation=True)
        known.exclude(waiting_on=cause[:200]).update(waiting_on=cause[:200])

    def _may_come_early(self, run: Run) -> bool:
        """A run that serves gets its engine before the first call where a seat is free."""
        if run.settings.serve is None or self._made_way_lately(run) or self._is_alone():
            return False
        return self._engines < settings.ENGINES_PER_WORKER

    def _made_way_lately(self, run: Run) -> bool:
        """No engine is built more than once in the time of a turn."""
        built = self.made_way.get(run.pk)
        return built is not None and time.monotonic() - built < settings.ENGINE_TURN_SECONDS

    def _make_room(self, more: float) -> bool:
        """Whether an engine of `more` bytes may be loaded; quiet ones make way, chats' first."""
        while self._is_full(more):
            if not self.chats.give_up_one(QUIET_SECONDS) and not self._give_up_a_seat():
                return False
        return True

    def _make_room_for_chat(self) -> bool:
        """As for a run. The size is not known yet: that of the largest engine here is assumed."""
        largest = max((self._bytes_of(seat.run) for seat in self.seats.values()), default=0)
        if not self._is_full(largest):
            return True
        gave_up = self.chats.give_up_one() or self._give_up_a_seat()
        return gave_up and not self._is_alone()

    def _is_full(self, more: float) -> bool:
        """Whether no engine of `more` bytes may be loaded beside those that are here."""
        if self._is_alone():
            return True
        if self._engines < settings.ENGINES_PER_WORKER:
            return False
        runs = [seat.run for seat in self.seats.values()]
        runs += [chair.version.run for chair in self.chats.chairs.values()]
        return not residence.fits(sum(map(self._bytes_of, runs)), more)

    @property
    def _engines(self) -> int:
        return len(self.seats) + len(self.chats.chairs)

    def _is_alone(self) -> bool:
        """A vLLM takes the GPU's memory for itself; small engines share a worker. One that is being loaded may become a vLLM."""
        engines = [*(seat.engine for seat in self.seats.values()), *(chair.engine for chair in self.chats.chairs.values())]
        return any(engine is None or engine.name == "vllm" for engine in engines)

    def _bytes_of(self, run: Run) -> int:
        if not self.sizes.get(run.pk):  # 0: its weights were not here yet
            self.sizes[run.pk] = expected_bytes(run)
        return self.sizes[run.pk]

    def _give_up_a_seat(self, at_once: bool = False) -> bool:
        """Free the least recently used engine that may go; `at_once`: of all that are idle."""
        now = time.monotonic()
        idle = [seat for seat in self.seats.values() if not seat.flights]
        may = [seat for seat in idle if at_once or self._may_leave(seat, now)]
        if may:
            seat = min(may, key=lambda seat: (not self.turns.is_over(seat.run.pk), seat.used_at))
            if seat.run.is_live:
                self.made_way[seat.run.pk] = self.turns.taken_at[seat.run.pk]
            log.info("engine_makes_way", run=seat.run)
            self._leave(seat)
        return bool(may)

    def _may_leave(self, seat: Seat, now: float) -> bool:
        if not seat.run.is_live or self._makes_way(seat):
            return True
        patience = settings.ENGINE_TURN_SECONDS if seat.plan.serve else QUIET_SECONDS
        return seat.run.pk not in self.due and now - seat.used_at >= patience

    def _makes_way(self, seat: Seat) -> bool:
        """Whether this seat begins nothing new: its turn is over, or somebody has waited long to chat and gets its place then."""
        fewest = min(self.seats.values(), key=lambda one: len(one.flights))
        return self.turns.is_over(seat.run.pk) or (self.chats.wants_room and seat is fewest)

    def _do_what_people_ask(self) -> None:
        for seat, act in asked_in(self.seats.values()):
            if self.seats.get(seat.run.pk) is seat:  # its engine may have died of the act before
                self._guarded(seat, lambda: do(seat, act))  # noqa: B023  (called before the loop goes on)
        for seat in list(self.seats.values()):
            self._guarded(seat, lambda: let_go(seat))  # noqa: B023

    def _collect(self, seat: Seat) -> None:
        left = len(seat.left)
        self._guarded(seat, lambda: seat.collect(DRAIN_SECONDS))
        if len(seat.left) > left:
            self.looked_at = 0.0  # what was set aside is gone on with at once, where there is room

    # -- leases and ends --------------------------------------------------------------------------------------------

    def _keep_leases(self) -> None:
        for seat in self.seats.values():
            claims = seat.claims
            kept = Group.objects.keep(claims, settings.LEASE_SECONDS)
            lost = {claim.group_id for claim in claims} - kept
            if lost:
                log.warning("leases_lost", run=seat.run, groups=sorted(lost))
                seat.abandon(lost)
        for seat in list(self.seats.values()):
            self._guarded(seat, lambda: seat.require_alive(SILENCE_SECONDS, HEALTH_SECONDS))  # noqa: B023

    def _all_kept(self) -> AbstractContextManager[None]:
        """While weights are loaded, which takes vLLM a minute: everything that is held stays ours, and the worker is heard."""
        claims = [claim for seat in self.seats.values() for claim in seat.claims]
        turns = [turn for chair in self.chats.chairs.values() for turn in chair.held]

        def keep() -> None:
            self.worker.beat()
            Group.objects.keep(claims, settings.LEASE_SECONDS)
            ChatTurn.keep(turns, settings.LEASE_SECONDS)

        return kept(keep)

    def _leave_ended(self, running: set[int]) -> None:
        """Seats of paused runs stay until their rollouts are in; seats of ended runs go at once."""
        for seat in [seat for run_id, seat in self.seats.items() if run_id not in running]:
            seat.run.refresh_from_db(fields=["state"])
            if seat.run.state in Run.ENDED:
                self._leave(seat)

    def _let_go_of_all(self) -> None:
        """Its groups were fenced: others have them by now, and nothing of what was said here is written."""
        for seat in list(self.seats.values()):
            Group.objects.give_back(seat.claims)  # what it took before it heard
            seat.abandon({flight.claim.group_id for flight in seat.flights.values()})
            self._leave(seat)
        self.chats.stop()

    def _leave(self, seat: Seat) -> None:
        del self.seats[seat.run.pk]
        self.turns.end(seat.run.pk)
        seat.leave()

    # -- faults -----------------------------------------------------------------------------------------------------

    def _guarded(self, seat: Seat, act) -> None:
        """Run an act of this seat; a dead engine frees its groups for another attempt and is replaced."""
        try:
            act()
        except EngineDied as death:
            log.error("engine_died", run=seat.run, reason=str(death))
            self._free_groups(seat, str(death))
            self._leave(seat)
            self._bury(seat.run, str(death))

    def _free_groups(self, seat: Seat, reason: str) -> None:
        held = {claim.group_id: claim.fence for claim in seat.claims}
        for group in Group.objects.filter(pk__in=held):
            try:
                if group.fence == held[group.pk]:
                    group.fail(f"engine died: {reason}")
            except StaleFence:
                continue  # taken over between the look and the write: then it is the other's

    def _bury(self, run: Run, reason: str) -> None:
        """Count the death; an engine that keeps dying pauses its run, with the reason, instead of burning money."""
        deaths = self.deaths[run.pk]
        deaths.append(time.monotonic())
        if len(deaths) == DEATHS_ALLOWED and deaths[-1] - deaths[0] < DEATHS_WITHIN_SECONDS:
            deaths.clear()
            minutes = DEATHS_WITHIN_SECONDS / 60
            self._pause(run, f"the engine died {DEATHS_ALLOWED} times within {minutes:.0f} minutes: {reason}")

    def _pause(self, run: Run, reason: str) -> None:
        try:
            run.pause(reason=reason[:500])
        except NotPossible:
            log.info("run_not_live", run=run)

    def _report(self, now: float) -> None:
        if now - self.reported_at < REPORT_SECONDS:
            return
        flying = [seat for seat in self.seats.values() if seat.flights]
        words = {seat.run.pk: f"{len(seat.flights)} rollouts, {seat.rate():.0f} tok/s" for seat in flying}
        doing = [f"{seat.run.slug}: {words[seat.run.pk]}" for seat in flying]
        waiting = {**self.awaited, **self.unseated}
        words = {**waiting, **words}
        for run, why in waiting.items():
            self._say(run, why.removeprefix("waits for "))
        doing += [f"{chair.version}: {len(chair.held)} chats" for chair in self.chats.chairs.values() if chair.held]
        idle = "takes nothing, as it was told" if self.worker.takes_nothing else "waiting for room to open groups"
        self.worker.beat("; ".join(doing) or idle, words)
        self.meter.put()
        self.reported_at = now

    def stop(self) -> None:
        with suppress(OperationalError):
            self.meter.put()
            self.chats.stop()
        for seat in list(self.seats.values()):
            with suppress(OperationalError):  # without a database the leases end by themselves
                Group.objects.give_back(seat.claims)  # first: to stop an engine may take longer than a lease
            self._leave(seat)
        weight_folders.stop()
        self.worker.stop()
