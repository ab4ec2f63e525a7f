"""A run's session at this worker: its engine with loaded weights, and its rollouts in flight."""

import time
from collections.abc import Collection

import structlog
from django.conf import settings

from apps.accounts.durability import commit_without_waiting
from apps.accounts.locking import unit_of_work
from apps.environments.closing import rests
from apps.environments.environment_lookup import find_or_register as find_environment
from apps.feedback.interventions import (
    keep_corrections,
    mark_done,
    refuse_intervention,
    refuse_left,
)
from apps.feedback.models import Intervention
from apps.leases.lease import Claim
from apps.rollouts.models import Group, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run, Worker
from apps.streaming import worker_notifications
from apps.streaming.chunks import ChunkWriter
from apps.tasksets.selection import chance
from workers import weight_folders
from workers.engines.choose import build_engine
from workers.engines.interface import Delta, Engine, EngineDied, SleepingEngine
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.explorer.episodes import Episodes
from workers.explorer.interventions import (
    ON_ITS_MOVE,
    STOPPED,
    TYPED,
    Effect,
    Refused,
    Stage,
    Then,
    corrections_in,
    overdue_holds,
    perform,
)
from workers.explorer.observations import ObservationReader
from workers.explorer.partial import PartialRollouts, load_partial_rollouts
from workers.explorer.rollout import InFlightRollout
from workers.explorer.rollout_plan import RolloutPlan, RolloutPlanner
from workers.explorer.weights import ServedWeights
from workers.gpu_turns import GpuTurn
from workers.vllm_plan import build_vllm_options

log = structlog.get_logger(__name__)
ENDS_A_TURN = frozenset({"stop", TYPED})
# A truncated turn is an action, too: the environment decides its reward.
ENDS_AN_ACTION = ENDS_A_TURN | {"length"}
LOOP = "repetition"
TIME = "time"
ABANDONED = "abandoned"  # shown to viewers; the row records that it was never finished


def _episodes_of(run: Run, plan: RunConfig) -> Episodes | None:
    """Return the episodes in which rollouts are played; None for a run without environment.

    Raises LookupError when the environment does not exist.
    """
    if plan.environment is None:
        return None
    return Episodes(
        find_environment(run.project, plan.environment.name), plan.environment, plan.serve
    )


class RunSession:
    """Session of a run: an engine, and the rollouts in flight.

    Not thread-safe: only the explorer's job uses it, while the engine's own thread generates.
    """

    def __init__(
        self, run: Run, worker: Worker, engine: Engine, gpu: GpuTurn | None = None
    ) -> None:
        """Create the session; `gpu` is held while the engine is awake, None if it never sleeps."""
        self.run = run
        self.worker = worker
        self.engine = engine
        self.gpu = gpu
        self.plan: RunConfig = run.settings
        self.chat_tokenizer = ChatTokenizer(weight_folders.of_policy(run.policy))
        self.planner = RolloutPlanner(run, self.plan, self.chat_tokenizer)
        self.writer = ChunkWriter(run.topic_id)
        self.weights = ServedWeights(run, worker, engine)
        self.partial = PartialRollouts(run, self.writer)
        self.rollouts: dict[str, InFlightRollout] = {}
        # Ended and not recorded rollouts, and those that wait to continue: they stay here for long
        # only during a database outage.
        self.ended: dict[InFlightRollout, str] = {}
        self.waiting: list[InFlightRollout] = []
        self.episodes = _episodes_of(run, self.plan)
        self.requests = 0
        self.tokens_sampled, self.since = 0, time.monotonic()
        self.last_output_at = self.used_at = self.since  # used_at: when anything was in flight last

    @classmethod
    def take(cls, run: Run, worker: Worker, gpu: GpuTurn | None = None) -> "RunSession":
        """Choose and build the run's engine, with the newest published weights loaded.

        `gpu`: held by the caller. Raises EngineDied, LookupError and UnsupportedOption. No engine
        stays behind after an error.
        """
        plan = run.settings
        engine, reason = build_engine(
            plan.engine,
            temperature=plan.sampling.temperature,
            threads=(plan.takes_turns and settings.TURN_THREADS) or settings.ENGINE_THREADS,
            vllm=build_vllm_options(plan, plan.room_in(run.policy.context_tokens) or None),
            sees=run.policy.sees_pictures,
            precision=plan.precision.engine,
            parameters=run.policy.parameters,
        )
        log.info("engine_chosen", run=run, engine=engine.name, reason=reason)
        Worker.objects.filter(pk=worker.pk).update(
            engine=engine.name, details={**worker.details, "engine": reason}
        )
        try:
            session = cls(run, worker, engine, gpu)
            session.weights.follow(run.published_version)
        except BaseException:  # also a database outage at the end of a long load
            engine.stop()
            raise
        return session

    @property
    def version(self) -> int | None:
        """Return the weight version that the engine serves; None until one is loaded."""
        return self.weights.version

    @property
    def _served_version(self) -> int:
        """Return the weight version that the engine serves, once one is loaded."""
        assert self.version is not None
        return self.version

    @property
    def _sleeper(self) -> SleepingEngine:
        """Return the engine of a session that shares its GPU: such an engine can sleep."""
        assert isinstance(self.engine, SleepingEngine)
        return self.engine

    def reread(self, run: Run) -> None:
        """Apply settings that may change in a live run (apps.runs.changing) to new requests."""
        self.run = self.weights.run = self.partial.run = run
        self.plan = run.settings
        self.planner = RolloutPlanner(run, self.plan, self.chat_tokenizer)
        self.engine.temperature = self.plan.sampling.temperature
        if self.episodes:
            self.episodes.serve = self.plan.serve

    # -- the GPU that its trainer has in turns

    @property
    def holds_gpu(self) -> bool:
        """Tell whether this explorer holds the GPU that its trainer needs."""
        return self.gpu is not None and self.gpu.is_held

    def take_gpu(self) -> bool:
        """Tell whether its engine may be awake now, which nobody else's is then."""
        return self.gpu is None or self.gpu.take()

    @property
    def is_asleep(self) -> bool:
        """Tell whether its engine has released the GPU's memory."""
        return self.gpu is not None and self._sleeper.is_asleep

    def rest(self) -> None:
        """Leave the GPU to the trainer while there is nothing to sample. Raises EngineDied."""
        if self.version is not None and not self.is_asleep:
            self._sleeper.sleep()
        assert self.gpu is not None  # only a session that shares its GPU leaves it
        self.gpu.give_back()
        worker_notifications.notify_workers("train")

    def wake(self) -> None:
        """Have the engine ready for requests. Raises EngineDied."""
        if self.is_asleep:
            self._sleeper.wake()

    # -- rollouts

    def submit(self, groups: list[Group]) -> None:
        """Send every unfinished rollout of these claimed groups to the engine."""
        rows = Rollout.objects.filter(group__in=groups, state=Rollout.State.SAMPLING).order_by(
            "group_id", "sample_index"
        )
        if self.episodes:
            self._open_episodes(groups, list(rows))
            return
        rows = rows.only("group_id", "sample_index")
        by_group = {group.pk: group for group in groups}
        prescribed = {group.pk: self.planner.of_task(group.task) for group in groups}
        fresh = []
        stored_partials = load_partial_rollouts(groups)
        for row in rows:
            group = by_group[row.group_id]
            rollout = self._new_rollout(row, group, prescribed[group.pk])
            self.partial.begin(rollout, group, stored_partials.get(row.pk), self.version)
            fresh.append(rollout)
        # `max_tokens` was lowered meanwhile.
        for rollout in [rollout for rollout in fresh if rollout.room < 1 and rollout.token_ids]:
            fresh.remove(rollout)
            self.end(rollout, "length")
        self.go_on(fresh)
        self.last_output_at = time.monotonic()

    def _new_rollout(self, row: Rollout, group: Group, plan: RolloutPlan) -> InFlightRollout:
        """Create the in-flight rollout. Its seed is the same when the run is repeated.

        So no database id is part of the seed. A new attempt after a failure has another seed, so
        that a text that killed an engine is not sampled again.
        """
        seed = chance.derive_seed(
            "rollout", self.plan.seed, group.draw_index, row.sample_index, group.attempts
        )
        rollout = InFlightRollout(row.pk, group.claimed, plan, self.chat_tokenizer, seed=seed)
        self.rollouts[str(row.pk)] = rollout
        return rollout

    def _open_episodes(self, groups: list[Group], rows: list[Rollout]) -> None:
        """Begin the rollouts' episodes; the environment speaks first."""
        assert self.episodes is not None  # the run has an environment
        by_group = {group.pk: group for group in groups}
        for row in rows:
            group = by_group[row.group_id]
            self._new_rollout(row, group, self.planner.without_prompt(group.task))
        self.episodes.open(groups, rows, [self.rollouts[str(row.pk)] for row in rows])

    def go_on(self, rollouts: list[InFlightRollout]) -> None:
        """Send each rollout to the engine from its current state.

        A rollout whose slice is over is set aside instead. Every request has its own name, so that
        late output of an earlier request is recognised.
        """
        requests = []
        for rollout in rollouts:
            if rollout.slice_is_over:
                rollout.set_aside()
                continue
            self.requests += 1
            requests.append(
                rollout.next_request(
                    f"{rollout.rollout_id}.{self.requests}",
                    self.plan.sampling.temperature,
                    self.has_callers,
                )
            )
        if requests:
            if not self.engine.in_flight():
                self.last_output_at = time.monotonic()  # the engine had no work until now
            self.engine.submit(requests)

    def halt(self, rollout: InFlightRollout) -> None:
        """Stop the engine's request for the rollout; its output in transit is ignored."""
        self.engine.abort([rollout.request_id])
        rollout.rest(time.monotonic())

    def collect(self, timeout: float, is_notified: bool = False) -> bool:
        """Read the engine's output: stream the text, record finished rollouts in one transaction.

        Returns whether there was any. `is_notified` tells that something may have changed in the
        database.
        """
        if self.waits_for_callers:
            timeout = 0.0
        elif self.episodes:
            timeout = self.episodes.patience(timeout)
        deltas = self.engine.drain(timeout)
        now = time.monotonic()
        if deltas:
            self.last_output_at = now
        for delta in deltas:
            rollout = self.rollouts.get(delta.request_id.partition(".")[0])
            # Anything else is late output of a request that an intervention ended.
            if rollout is not None and rollout.request_id == delta.request_id:
                self._apply_delta(rollout, delta, now)
        self._end_overdue(now)
        if self.episodes:
            self._observe(self.episodes, is_notified)
        self.record()
        self.go_on(
            [
                rollout
                for rollout in self.waiting
                if rollout.is_idle and self.rollouts.get(str(rollout.rollout_id)) is rollout
            ]
        )
        self.waiting.clear()
        self._store_partial()
        # With nothing in flight there may be no further call.
        self.writer.flush(at_once=not self.rollouts)
        return bool(deltas)

    def _apply_delta(self, rollout: InFlightRollout, delta: Delta, now: float) -> None:
        """Apply one piece of output.

        If it ends the request, the rollout waits to continue, or ends.
        """
        rollout.clock.run(now)
        if reason := self._take(rollout, delta):
            rollout.rest(now)
            goes_on = rollout.is_cut_by_slice(reason) or self.goes_on_after_turn(rollout, reason)
            self.waiting += [rollout] if goes_on else []

    def _end_overdue(self, now: float) -> None:
        """End the rollouts whose time limit is over; they keep the text they have."""
        for rollout in self.rollouts.values():
            is_at_it = (
                rollout.held_until is None
                and not rollout.is_set_aside
                and rollout not in self.ended
            )
            if is_at_it and rollout.clock.is_over(now):
                rollout.drop_unanswered()
                if rollout.request_id:
                    self.halt(rollout)
                self.end(rollout, TIME)

    def _take(self, rollout: InFlightRollout, delta: Delta) -> str | None:
        """Append the output; return why the turn has ended, None if it has not."""
        offset = len(rollout.token_ids)
        text = rollout.take(delta)
        self.tokens_sampled += len(delta.token_ids)
        self.writer.add(
            rollout.rollout_id, offset, text, tuple(rollout.logprobs[offset:]), delta.version
        )
        if rollout.has_stopped:
            ends = "stop"
        elif rollout.is_looping and delta.stop_reason != "stop":
            ends = LOOP
        else:
            return delta.stop_reason
        if not delta.stop_reason:
            self.halt(rollout)
        return ends

    def goes_on_after_turn(self, rollout: InFlightRollout, stop_reason: str) -> bool:
        """Tell whether the user continues after the policy's turn; otherwise the rollout ends.

        With an environment neither is known yet.
        """
        if self.episodes and stop_reason in ENDS_AN_ACTION:
            self.episodes.act(rollout, cut=stop_reason == "length")
            return False
        offset = len(rollout.token_ids)
        if stop_reason in ENDS_A_TURN and (follow_up := rollout.append_next_message()):
            self.writer.turn(rollout.rollout_id, offset, len(follow_up.token_ids), follow_up.text)
            return True
        self.end(
            rollout,
            "length" if stop_reason in ENDS_A_TURN and rollout.is_cut_short else stop_reason,
        )
        return False

    def _store_partial(self) -> None:
        """Store the rollouts set aside, and forget those whose groups are released or lost."""
        stored = self.partial.store(self.rollouts.values(), self.weights.acknowledge)
        for rollout in stored.left:
            del self.rollouts[str(rollout.rollout_id)]
        if stored.lost:
            self.abandon(stored.lost)

    # -- people's interventions

    def carry_out(self, intervention: Intervention) -> None:
        """Carry out the intervention, or record why it is refused. Raises EngineDied."""
        rollout = self.rollouts.get(str(intervention.rollout_id))
        try:
            if rollout is None or rollout in self.ended:
                raise Refused("the reply was already complete")
            if intervention.kind in ON_ITS_MOVE and self.is_away(rollout):
                raise Refused("wait for the environment's answer")
            effect = perform(Stage(self._served_version, self.writer), rollout, intervention)
        except Refused as refusal:
            refuse_intervention(intervention, str(refusal))
            return
        self._follow(rollout, intervention, effect)
        log.info(
            "intervention_applied",
            run=self.run,
            rollout=intervention.rollout_id,
            intervention=intervention.kind,
            by=intervention.by.username,
        )
        mark_done(intervention, effect.before)

    def _follow(self, rollout: InFlightRollout, intervention: Intervention, effect: Effect) -> None:
        """Do what follows from an intervention."""
        if effect.halts:
            self.halt(rollout)
        goes_on = effect.then is Then.GO_ON
        if effect.then is Then.END_TURN:
            goes_on = self.goes_on_after_turn(rollout, TYPED)
        if effect.then is Then.END:
            self.end(rollout, STOPPED)
        if goes_on:
            self.go_on([rollout])
        elif effect.then is not Then.WAIT:
            # Before the rollout's end, which refuses pending interventions.
            mark_done(intervention, effect.before)
            self.record()

    def release_overdue(self) -> None:
        """Release the rollouts whose hold has expired. Raises EngineDied."""
        for rollout in overdue_holds(self.rollouts.values()):
            self.writer.freed(rollout.rollout_id)
            self.go_on([rollout])

    # -- episodes

    def _observe(self, episodes: Episodes, is_notified: bool) -> None:
        """Apply new observations: each affected rollout continues with its turn, or ends."""
        reader = ObservationReader(episodes, self.planner, self.writer, self.version)
        for observed in reader.read(self.ended, self.awaits_engine, is_notified):
            if observed.ends is None:
                self.waiting.append(observed.rollout)
                continue
            if observed.rollout.request_id:
                self.halt(observed.rollout)
            self.end(observed.rollout, observed.ends)

    @property
    def has_callers(self) -> bool:
        """Tell whether callers of the API play the environment, and notify this explorer."""
        return self.episodes is not None and self.episodes.player is None

    @property
    def waits_for_callers(self) -> bool:
        """Tell whether nothing happens until an API caller wakes us."""
        return self.has_callers and not self.waiting and not self.awaits_engine

    @property
    def awaits_engine(self) -> bool:
        """Tell whether engine output is still to come, or has ended and was not read yet."""
        return any(rollout.request_id for rollout in self.rollouts.values())

    def is_away(self, rollout: InFlightRollout) -> bool:
        return self.episodes is not None and self.episodes.is_away(rollout)

    @property
    def environment_rests(self) -> bool:
        """Tell whether new episodes are suspended because the environment failed repeatedly."""
        return self.episodes is not None and rests(self.episodes.environment)

    # -- the end

    def end(self, rollout: InFlightRollout, reason: str) -> None:
        """Mark the rollout as ended; `record` writes it."""
        self.ended[rollout] = reason
        self.writer.end(rollout.rollout_id, reason)

    def record(self) -> None:
        """Write the ended rollouts, with people's corrections in them, in one transaction."""
        if not self.ended:
            return
        self.weights.acknowledge()
        claims = {rollout.claim.pk: rollout.claim for rollout in self.rollouts.values()}
        ours = self._write_ended(claims)
        touched = {rollout.claim.pk for rollout in self.ended}
        for rollout in self.ended:
            del self.rollouts[str(rollout.rollout_id)]
        if self.episodes:
            self.episodes.forget(self.ended)
        self.ended.clear()
        self.abandon(touched - ours)

    @unit_of_work
    def _write_ended(self, claims: dict[int, Claim]) -> set[int]:
        """Write the ended rollouts; return the groups that are still ours."""
        outcomes = [rollout.outcome(reason) for rollout, reason in self.ended.items()]
        ours = Group.finish_rollouts(claims, outcomes)
        written = [rollout for rollout in self.ended if rollout.claim.pk in ours]
        refuse_left([rollout.rollout_id for rollout in written])
        corrections = [correction for rollout in written for correction in corrections_in(rollout)]
        keep_corrections(self.run, corrections)
        if self.episodes:
            self.episodes.settle({rollout: self.ended[rollout] for rollout in written}, outcomes)
        elif not corrections and not self.run.settings.serve:
            commit_without_waiting()  # nobody waits for these: lost ones are sampled again
        return ours

    def require_alive(self, silence_s: float, deadline_s: float) -> None:
        """Check an engine that has work but has been silent that long. Raises EngineDied."""
        if self.awaits_engine and time.monotonic() - self.last_output_at > silence_s:
            health = self.engine.health(deadline_s)
            if not health.alive:
                raise EngineDied(health.detail)

    @property
    def places(self) -> int:
        """Return how many rollouts occupy a place of the engine, or may do so at any moment.

        Rollouts that were set aside occupy none.
        """
        return sum(not rollout.is_set_aside for rollout in self.rollouts.values())

    @property
    def claims(self) -> list[Claim]:
        return list({rollout.claim for rollout in self.rollouts.values()})

    def abandon(self, group_ids: Collection[int]) -> None:
        """Stop sampling these groups, which another worker holds now, without writing them."""
        lost = [key for key, rollout in self.rollouts.items() if rollout.claim.pk in group_ids]
        rollouts = [self.rollouts.pop(key) for key in lost]
        for rollout in rollouts:
            self.ended.pop(rollout, None)
        if self.episodes:
            self.episodes.forget(rollouts)
        self.engine.abort([rollout.request_id for rollout in rollouts])

    def rate(self) -> float:
        """Return the tokens per second since the last call."""
        now = time.monotonic()
        rate = self.tokens_sampled / max(now - self.since, 1e-9)
        self.tokens_sampled = 0
        self.since = now
        return rate

    def leave(self) -> None:
        """Stop the engine.

        Rollouts of an ended run are over; those of any other will start again elsewhere.
        """
        self.engine.abort([rollout.request_id for rollout in self.rollouts.values()])
        self.engine.stop()
        if self.gpu is not None:
            self.gpu.give_back()
        if self.episodes:
            self.episodes.stop()
        if self.run.state in Run.ENDED:
            released_ids = Rollout.objects.filter(
                pk__in=self.partial.left, state=Rollout.State.SAMPLING
            ).values_list("pk", flat=True)
            for rollout_id in {
                *released_ids,
                *(rollout.rollout_id for rollout in self.rollouts.values()),
            }:
                self.writer.end(rollout_id, ABANDONED)
            self.writer.flush(at_once=True)
