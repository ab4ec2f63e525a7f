"""A run's seat at this worker: its engine with a weight version loaded, and its rollouts in flight."""

import time

import structlog
from django.conf import settings

from apps.accounts.locking import unit_of_work
from apps.environments.choosing import find as find_environment
from apps.environments.closing import rests
from apps.feedback.interventions import keep_corrections, refuse_left
from apps.rollouts.models import Claim, Group, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run, WeightVersion, Worker
from apps.streaming.chunks import ChunkWriter
from apps.tasksets.selection import chance
from workers import weight_folders
from workers.engines.choose import build
from workers.engines.interface import Delta, Engine, EngineDied, LoadReport
from workers.explorer import hearing, partial, scripts, weights
from workers.explorer.acts import TYPED, corrections_in
from workers.explorer.episodes import Episodes
from workers.explorer.flight import Flight
from workers.explorer.speaker import Speaker

log = structlog.get_logger(__name__)
ENDS_A_TURN = frozenset({"stop", TYPED})
ENDS_AN_ACTION = ENDS_A_TURN | {"length"}  # one that was cut is an action, too: the environment says what it is worth
LOOP, TIME = "repetition", "time"
ABANDONED = "abandoned"  # to those who watch; the row keeps that it was never finished


def _episodes_of(run: Run, plan: RunConfig) -> Episodes | None:
    """Where its rollouts are played; None in a run without environment. Raises LookupError when it is not there."""
    if plan.environment is None:
        return None
    return Episodes(find_environment(run.project, plan.environment.name), plan.environment, plan.serve)


class Seat:
    """Not thread-safe: the explorer's job is its only user; the engine's own thread generates meanwhile."""

    def __init__(self, run: Run, worker: Worker, engine: Engine) -> None:
        self.run, self.worker, self.engine = run, worker, engine
        self.plan: RunConfig = run.settings
        self.speaker = Speaker(weight_folders.of_policy(run.policy))
        self.writer = ChunkWriter(run.topic_id)
        self.flights: dict[str, Flight] = {}
        # What has ended and is not recorded yet, and whose turn it is again: for more than a moment only without a database.
        self.ended: dict[Flight, str] = {}
        self.waiting: list[Flight] = []
        self.episodes = _episodes_of(run, self.plan)
        self.left: set[int] = set()  # rollouts that were set aside here and left to whoever takes them
        self.requests = 0
        self.version: int | None = None
        self.unsaid: tuple[WeightVersion, LoadReport] | None = None  # loaded, and not acknowledged yet
        self.tokens_sampled, self.since = 0, time.monotonic()
        self.heard_at = self.used_at = self.since  # used: had anything in flight

    @classmethod
    def take(cls, run: Run, worker: Worker) -> "Seat":
        """Choose and build the run's engine, with the newest published weights loaded."""
        plan = run.settings
        engine, reason = build(
            plan.engine,
            temperature=plan.sampling.temperature,
            threads=(plan.takes_turns and settings.TURN_THREADS) or settings.ENGINE_THREADS,
            memory_share=settings.GPU_MEMORY_PERCENT / 100,
            sees=run.policy.sees_pictures,
            precision=plan.precision.engine,
        )
        log.info("engine_chosen", run=run, engine=engine.name, reason=reason)
        Worker.objects.filter(pk=worker.pk).update(engine=engine.name, details={**worker.details, "engine": reason})
        seat = cls(run, worker, engine)
        weights.follow(seat, run.published_version)
        return seat

    def reread(self, run: Run) -> None:
        """Take up what may change while the run is live (apps.runs.changing) for the requests that come now."""
        self.run, self.plan = run, run.settings
        self.engine.temperature = self.plan.sampling.temperature
        if self.episodes:
            self.episodes.serve = self.plan.serve

    # -- rollouts ---------------------------------------------------------------------------------------------------

    def submit(self, groups: list[Group]) -> None:
        """Send every rollout of these claimed groups that is not written yet."""
        rows = Rollout.objects.filter(group__in=groups, state=Rollout.State.SAMPLING).order_by("group_id", "sample_index")
        if self.episodes:
            self._open_episodes(groups, list(rows.all()))
            return
        by_group = {group.pk: group for group in groups}
        prescribed = {group.pk: scripts.of_task(self, group.task) for group in groups}
        fresh = []
        kept = partial.kept_of(groups)
        for row in rows:
            group = by_group[row.group_id]
            flight = self._flight(row, group, prescribed[group.pk])
            partial.begin(self, flight, group, kept.get(row.pk))
            fresh.append(flight)
        for flight in [flight for flight in fresh if flight.room < 1 and flight.token_ids]:  # max_tokens was lowered meanwhile
            fresh.remove(flight)
            self.end(flight, "length")
        self.go_on(fresh)
        self.heard_at = time.monotonic()

    def _flight(self, row: Rollout, group: Group, script: scripts.Script) -> Flight:
        """Its seed names the sample by what is the same when the run is repeated, so by no database id.

        An attempt after a failure draws other numbers: a text that ended an engine does not come back.
        """
        seed = chance.seed("rollout", self.plan.seed, group.draw_index, row.sample_index, group.attempts)
        flight = Flight(row.pk, group.claimed, script, self.speaker, seed=seed)
        self.flights[str(row.pk)] = flight
        return flight

    def _open_episodes(self, groups: list[Group], rows: list[Rollout]) -> None:
        """Begin their episodes; the environment speaks first."""
        by_group = {group.pk: group for group in groups}
        for row in rows:
            group = by_group[row.group_id]
            self._flight(row, group, scripts.unheard(self, group.task))
        self.episodes.open(groups, rows, [self.flights[str(row.pk)] for row in rows])

    def go_on(self, flights: list[Flight]) -> None:
        """Send each to the engine from where it is. Every request has a name of its own: what is late of another is known.

        One whose slice is over is set aside instead.
        """
        requests = []
        for flight in flights:
            if flight.slice_is_over:
                flight.set_aside()
                continue
            self.requests += 1
            requests.append(flight.going_on(f"{flight.rollout_id}.{self.requests}", self.plan.sampling.temperature))
        if requests:
            if not self.engine.in_flight():
                self.heard_at = time.monotonic()  # until now it had nothing to say
            self.engine.submit(requests)

    def halt(self, flight: Flight) -> None:
        """The engine says no more of it; what is under way is not taken."""
        self.engine.abort([flight.request_id])
        flight.rest(time.monotonic())

    def collect(self, timeout: float) -> bool:
        """Take the engine's news: stream the text, record what ended in one transaction. True when there was any."""
        if self.waits_for_callers:
            timeout = 0.0
        elif self.episodes:
            timeout = self.episodes.patience(timeout)
        deltas, now = self.engine.drain(timeout), time.monotonic()
        if deltas:
            self.heard_at = now
        for delta in deltas:
            flight = self.flights.get(delta.request_id.partition(".")[0])
            # Anything else is late: of a request that was ended when somebody laid a hand on its rollout.
            if flight is not None and flight.request_id == delta.request_id:
                self._hear(flight, delta, now)
        self._end_overdue(now)
        if self.episodes:
            hearing.hear(self)
        self.record()
        self.go_on([flight for flight in self.waiting if flight.is_idle and self.flights.get(str(flight.rollout_id)) is flight])
        self.waiting.clear()
        partial.store(self)
        self.writer.flush(at_once=not self.flights)  # with nothing in flight there may be no further turn
        return bool(deltas)

    def _hear(self, flight: Flight, delta: Delta, now: float) -> None:
        """Take this news of it; where that ended what was asked of the engine, the rollout waits to go on, or ends."""
        flight.clock.run(now)
        if reason := self._take(flight, delta):
            flight.rest(now)
            goes_on = flight.is_cut_by_slice(reason) or self.goes_on_after_turn(flight, reason)
            self.waiting += [flight] if goes_on else []

    def _end_overdue(self, now: float) -> None:
        """Those that would go on and whose time is over keep what they said until now."""
        for flight in self.flights.values():
            is_at_it = flight.held_until is None and not flight.is_set_aside and flight not in self.ended
            if is_at_it and flight.clock.is_over(now):
                flight.drop_unanswered()
                if flight.request_id:
                    self.halt(flight)
                self.end(flight, TIME)

    def _take(self, flight: Flight, delta: Delta) -> str | None:
        """Why the turn has ended, if it has."""
        offset = len(flight.token_ids)
        text = flight.take(delta)
        self.tokens_sampled += len(delta.token_ids)
        self.writer.add(flight.rollout_id, offset, text, tuple(flight.logprobs[offset:]), delta.version)
        if flight.has_stopped:
            ends = "stop"
        elif flight.is_looping and delta.stop_reason != "stop":
            ends = LOOP
        else:
            return delta.stop_reason
        if not delta.stop_reason:
            self.halt(flight)
        return ends

    def goes_on_after_turn(self, flight: Flight, stop_reason: str) -> bool:
        """The policy's turn has ended: whether the user goes on, so that it is the policy's turn again; else the rollout ends.

        Where an environment answers, neither is known yet.
        """
        if self.episodes and stop_reason in ENDS_AN_ACTION:
            self.episodes.act(flight, cut=stop_reason == "length")
            return False
        offset = len(flight.token_ids)
        if stop_reason in ENDS_A_TURN and (follow_up := flight.hear()):
            self.writer.turn(flight.rollout_id, offset, len(follow_up.token_ids), follow_up.text)
            return True
        self.end(flight, "length" if stop_reason in ENDS_A_TURN and flight.is_cut_short else stop_reason)
        return False

    # -- episodes ---------------------------------------------------------------------------------------------------

    @property
    def waits_for_callers(self) -> bool:
        """Whether nothing goes on in it until somebody calls us: then a bell rings."""
        return self.episodes is not None and self.episodes.player is None and not self.waiting and not self.awaits_engine

    @property
    def awaits_engine(self) -> bool:
        """Whether news of the engine is still to be taken; what it has ended and nobody took is such news, too."""
        return any(flight.request_id for flight in self.flights.values())

    def is_away(self, flight: Flight) -> bool:
        return self.episodes is not None and self.episodes.is_away(flight)

    @property
    def environment_rests(self) -> bool:
        """Whether nothing new is played for now: its environment has failed again and again."""
        return self.episodes is not None and rests(self.episodes.environment)

    # -- ends -------------------------------------------------------------------------------------------------------

    def end(self, flight: Flight, reason: str) -> None:
        """Nothing more is said in it; `record` writes it."""
        self.ended[flight] = reason
        self.writer.end(flight.rollout_id, reason)

    def record(self) -> None:
        """Write what has ended, with what people typed in it, in one transaction."""
        if not self.ended:
            return
        weights.acknowledge(self)
        claims = {flight.claim.group_id: flight.claim for flight in self.flights.values()}
        ours = self._write_ended(claims)
        touched = {flight.claim.group_id for flight in self.ended}
        for flight in self.ended:
            del self.flights[str(flight.rollout_id)]
        if self.episodes:
            self.episodes.forget(self.ended)
        self.ended.clear()
        self.abandon(touched - ours)

    @unit_of_work
    def _write_ended(self, claims: dict[int, Claim]) -> set[int]:
        """Write what has ended; returns the groups that are still ours."""
        outcomes = [flight.outcome(reason) for flight, reason in self.ended.items()]
        ours = Group.finish_rollouts(claims, outcomes)
        kept = [flight for flight in self.ended if flight.claim.group_id in ours]
        refuse_left([flight.rollout_id for flight in kept])
        corrections = [correction for flight in kept for correction in corrections_in(flight)]
        keep_corrections(self.run, corrections)
        if self.episodes:
            self.episodes.settle({flight: self.ended[flight] for flight in kept}, outcomes)
        return ours

    def require_alive(self, silence_s: float, deadline_s: float) -> None:
        """Ask an engine that has been silent that long, with work in hand, for a sign of life; raises EngineDied without one."""
        if self.awaits_engine and time.monotonic() - self.heard_at > silence_s:
            health = self.engine.health(deadline_s)
            if not health.alive:
                raise EngineDied(health.detail)

    @property
    def places(self) -> int:
        """Rollouts that take a place of its engine, or may again at any moment; those set aside have given theirs back."""
        return sum(not flight.is_set_aside for flight in self.flights.values())

    @property
    def claims(self) -> list[Claim]:
        return list({flight.claim for flight in self.flights.values()})

    def abandon(self, group_ids: set[int]) -> None:
        """Another worker holds these groups now: stop sampling them and write nothing."""
        lost = [key for key, flight in self.flights.items() if flight.claim.group_id in group_ids]
        flights = [self.flights.pop(key) for key in lost]
        for flight in flights:
            self.ended.pop(flight, None)
        if self.episodes:
            self.episodes.forget(flights)
        self.engine.abort([flight.request_id for flight in flights])

    def rate(self) -> float:
        """Tokens a second since the last question."""
        now = time.monotonic()
        rate = self.tokens_sampled / max(now - self.since, 1e-9)
        self.tokens_sampled, self.since = 0, now
        return rate

    def leave(self) -> None:
        """Stop the engine. Rollouts of a run that has ended are over; those of any other will begin again elsewhere."""
        self.engine.abort([flight.request_id for flight in self.flights.values()])
        self.engine.stop()
        if self.episodes:
            self.episodes.stop()
        if self.run.state in Run.ENDED:
            left = Rollout.objects.filter(pk__in=self.left, state=Rollout.State.SAMPLING).values_list("pk", flat=True)
            for rollout in {*left, *(flight.rollout_id for flight in self.flights.values())}:
                self.writer.end(rollout, ABANDONED)
            self.writer.flush(at_once=True)
