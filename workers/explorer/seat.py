"""A run's seat at this worker: its engine with a weight version loaded, and its rollouts in flight."""

import time
from pathlib import Path

import structlog
from django.conf import settings

from apps.policies.manifest import DamagedWeights, verify
from apps.rollouts.models import Claim, Group, Outcome, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Acknowledgement, Run, WeightVersion, Worker
from apps.streaming.chunks import ChunkWriter
from workers.engines.choose import build
from workers.engines.interface import Delta, Engine, EngineDied, ParityError, Request, Sampling
from workers.explorer.flight import Flight
from workers.explorer.speaker import Speaker, Typist

log = structlog.get_logger(__name__)
ABANDONED = "abandoned"  # to those who watch; the row keeps that it was never finished
# What tells of the weights, not of the engine: no other engine of this kind would serve them either.
UNFIT = (DamagedWeights, ParityError, ValueError, OSError)


class Seat:
    """Not thread-safe: the explorer's job is its only user; the engine's own thread generates meanwhile."""

    def __init__(self, run: Run, worker: Worker, engine: Engine) -> None:
        self.run, self.worker, self.engine = run, worker, engine
        self.plan: RunConfig = run.settings
        self.speaker = Speaker(Path(run.policy.folder))
        self.writer = ChunkWriter(run.topic_id)
        self.flights: dict[str, Flight] = {}
        self.version: int | None = None
        self.tokens_sampled, self.since = 0, time.monotonic()
        self.heard_at = self.since

    @classmethod
    def take(cls, run: Run, worker: Worker) -> "Seat":
        """Choose and build the run's engine, with the newest published weights loaded."""
        plan = run.settings
        engine, reason = build(
            plan.engine,
            temperature=plan.sampling.temperature,
            seed=plan.seed,
            threads=settings.ENGINE_THREADS,
            memory_share=settings.GPU_MEMORY_PERCENT / 100,
        )
        log.info("engine_chosen", run=run.slug, engine=engine.name, reason=reason)
        Worker.objects.filter(pk=worker.pk).update(engine=engine.name, details={**worker.details, "engine": reason})
        seat = cls(run, worker, engine)
        seat.follow(run.published_version)
        return seat

    # -- weights ----------------------------------------------------------------------------------------------------

    def follow(self, version: int) -> None:
        """Serve this published version from now on, and say so. Weights that cannot be served pause the run instead."""
        if self.version is not None and version <= self.version:
            return
        row = WeightVersion.objects.get(run=self.run, version=version)
        try:
            report = self._load(row)
        except UNFIT as refusal:
            row.refresh_from_db(fields=["state"])
            if row.state == WeightVersion.State.RETIRED:
                return  # the trainer went on and deleted it while it was being read: the next look finds a newer one
            log.error("weights_refused", run=self.run.slug, weight_version=version, reason=str(refusal))
            row.refuse(str(refusal))
            self.run.pause(reason=f"weight version {version} was refused: {refusal}"[:500])
            return
        self.version = version
        Acknowledgement.record(
            row, self.worker, fingerprint=report.fingerprint, probe_gap=report.probe_gap, milliseconds=report.milliseconds
        )
        log.info(
            "weights_loaded",
            run=self.run.slug,
            weight_version=version,
            probe_gap=report.probe_gap,
            milliseconds=round(report.milliseconds, 1),
        )

    def _load(self, row: WeightVersion):
        folder = Path(row.folder)
        probe = verify(folder).probe
        if self.version is None:
            return self.engine.start(folder, row.version, probe)
        return self.engine.load(folder, row.version, probe)

    def reread(self, run: Run) -> None:
        """Take up what may change while the run is live (apps.runs.changing) for the requests that come now."""
        self.run, self.plan = run, run.settings

    # -- rollouts ---------------------------------------------------------------------------------------------------

    def submit(self, groups: list[Group]) -> None:
        """Send every rollout of these claimed groups that is not written yet."""
        rows = Rollout.objects.filter(group__in=groups, state=Rollout.State.SAMPLING).order_by("group_id", "sample_index")
        by_group = {group.pk: group for group in groups}
        prompts = {group.pk: self.speaker.prompt_ids(group.task.prompt) for group in groups}
        sampling = Sampling(self.plan.sampling.max_tokens, self.plan.sampling.temperature, self.speaker.stop_token_ids)
        requests = []
        for row in rows:
            group = by_group[row.group_id]
            self.flights[str(row.pk)] = Flight(row.pk, group.claimed, prompts[group.pk], Typist(self.speaker))
            self.writer.started(row.pk, group.pk, group.task.question, self.version)
            requests.append(Request(str(row.pk), prompts[group.pk], sampling))
        self.engine.submit(requests)
        self.heard_at = time.monotonic()

    def collect(self, timeout: float) -> bool:
        """Take the engine's news: stream the text, record what ended in one transaction. True when there was any."""
        outcomes: list[Outcome] = []
        deltas = self.engine.drain(timeout)
        if deltas:
            self.heard_at = time.monotonic()
        for delta in deltas:
            flight = self.flights.get(delta.request_id)
            if flight is not None:
                self._take(flight, delta, outcomes)
        self.writer.flush()
        if outcomes:
            self._record(outcomes)
        return bool(deltas)

    def _take(self, flight: Flight, delta: Delta, outcomes: list[Outcome]) -> None:
        text = flight.take(delta)
        self.tokens_sampled += len(delta.token_ids)
        self.writer.add(flight.rollout_id, delta.offset, text, delta.logprobs, delta.version)
        if delta.stop_reason:
            self.writer.end(flight.rollout_id, delta.stop_reason)
            outcomes.append(flight.outcome(delta.stop_reason))

    def _record(self, outcomes: list[Outcome]) -> None:
        claims = {flight.claim.group_id: flight.claim for flight in self.flights.values()}
        ours = Group.finish_rollouts(claims, outcomes)
        touched = {self.flights.pop(str(outcome.rollout_id)).claim.group_id for outcome in outcomes}
        self.abandon(touched - ours)

    def require_alive(self, silence_s: float, deadline_s: float) -> None:
        """Ask an engine that has been silent that long, with work in hand, for a sign of life; raises EngineDied without one."""
        if self.flights and time.monotonic() - self.heard_at > silence_s:
            health = self.engine.health(deadline_s)
            if not health.alive:
                raise EngineDied(health.detail)

    @property
    def claims(self) -> list[Claim]:
        return list({flight.claim for flight in self.flights.values()})

    def abandon(self, group_ids: set[int]) -> None:
        """Another worker holds these groups now: stop sampling them and write nothing."""
        lost = [key for key, flight in self.flights.items() if flight.claim.group_id in group_ids]
        for key in lost:
            del self.flights[key]
        self.engine.abort(lost)

    def rate(self) -> float:
        """Tokens a second since the last question."""
        now = time.monotonic()
        rate = self.tokens_sampled / max(now - self.since, 1e-9)
        self.tokens_sampled, self.since = 0, now
        return rate

    def leave(self) -> None:
        """Stop the engine. Rollouts of a run that has ended are over; those of any other will begin again elsewhere."""
        self.engine.abort(list(self.flights))
        self.engine.stop()
        if self.run.state in Run.ENDED:
            for flight in self.flights.values():
                self.writer.end(flight.rollout_id, ABANDONED)
            self.writer.flush(at_once=True)
