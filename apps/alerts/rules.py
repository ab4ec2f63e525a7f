"""The alert rules, each a pure function of a run's facts and the rule's threshold.

A rule yields its current findings. While an alert is open the threshold is slightly looser, so that
a metric near the limit does not open and close it again and again.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apps.alerts.facts import Facts, Points
from apps.runs import alerts as rule
from apps.runs.config import RunConfig

HYSTERESIS = 0.9  # share of the limit below which a metric must fall to close its alert
DIVERGENCE = "divergence"  # kind of the suspicion about agreement
WAITING_ON = {
    "waiting": "raters",
    "scoring": "scorers",
    "sampling": "the explorer",
    "judged": "the refiner",
}
REMEDIES = {
    "waiting": "Find more raters, or lower people.per_group or people.deadline_s.",
    "scoring": (
        "Check that scorers run and that the judge’s service responds. More scorers work faster."
    ),
    "sampling": (
        "Check that explorers run, and their tokens per second. Start another explorer to sample"
        " faster."
    ),
    "judged": "Check that the refiner runs, and read its log.",
}
UNITS = {
    "gpu_hours": "GPU hours",
    "cpu_hours": "CPU hours",
    "tokens": "sampled tokens",
    "judge_tokens": "judge tokens",
    "people_hours": "rater hours",
    "money": "of costs",
}


@dataclass(frozen=True)
class AlertFinding:
    """A finding of a rule.

    `words` is a sentence with the metric. `is_final` pauses the run whatever its configuration
    says.
    """

    words: str
    todo: str
    since: datetime
    measured: float
    key: str = ""
    is_final: bool = False


# Each takes its own kind of apps.runs.alerts.Rule; `apply_rule` reads it by the same name.
RuleCheck = Callable[[Facts, Any, frozenset[str]], Iterator[AlertFinding]]


def apply_rule(
    facts: Facts, name: str, is_open: frozenset[str] = frozenset()
) -> list[AlertFinding]:
    """Apply one rule to the facts of a run and return its findings.

    `is_open` holds the keys of the rule's open alerts. Returns nothing if the run has switched the
    rule off.
    """
    chosen = getattr(facts.plan.alerts, name)
    if name == "budget" and chosen is None:
        chosen = rule.NearBudget(
            share=1.0
        )  # no early warning wanted; the limits apply all the same
    return [] if chosen is None else list(RULES[name](facts, chosen, is_open))


def no_progress(
    facts: Facts, limit: rule.NoProgress, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    if facts.plan.evaluation:  # an evaluation makes no steps
        return
    idle = facts.since(facts.moved_at)
    seconds = _values(facts.curves.get("step_seconds", ()))
    usual = statistics.median(seconds) if seconds else 0.0
    if idle < max(limit.after_s, limit.step_time_factor * usual) or _waits_for_callers(facts):
        return
    pace = f"; a step usually takes {format_duration(usual)}" if seconds else ""
    waiting = f" The trainer waits for {facts.waiting_on}." if facts.waiting_on else ""
    yield AlertFinding(
        f"No step for {format_duration(idle)}, after step {facts.step:,}{pace}.{waiting}",
        (
            "Open the run’s page and check the stage that holds the most groups."
            if facts.waiting_on
            else "Check that a trainer runs, and read its log."
        ),
        facts.moved_at,
        idle,
    )


def starvation(
    facts: Facts, limit: rule.Starvation, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    idle = facts.since(facts.moved_at)
    if not facts.waiting_on or idle < limit.after_s or not facts.groups_by_state:
        return
    counts = {name: groups.count for name, groups in facts.groups_by_state.items()}
    state = max(WAITING_ON, key=lambda name: counts.get(name, 0))
    groups = facts.groups_by_state[state]
    yield AlertFinding(
        f"The trainer has waited {format_duration(idle)} for {WAITING_ON[state]}: {groups.count:,}"
        f" group{'' if groups.count == 1 else 's'} waiting, the oldest for"
        f" {format_duration(facts.since(groups.since))}.",
        REMEDIES[state],
        facts.moved_at,
        idle,
    )


def nothing_learned(
    facts: Facts, limit: rule.NothingLearned, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    """Report a window of groups that were all dropped (apps.alerts.learning_stalls finds it)."""
    stall = facts.fruitless
    if stall is None:
        return
    causes = "; ".join(f"{count:,} × {words}" for count, words in stall.causes)
    yield AlertFinding(
        f"The last {stall.groups:,} groups were all dropped. Most common causes: {causes}.",
        "Check some of the dropped groups on the Buffer page, fix the cause, and resume the run."
        " If all replies of a group get the same reward, use easier or harder tasks, larger"
        " groups, or a scorer that tells the replies apart.",
        stall.since,
        float(stall.groups),
    )


def not_finite(
    facts: Facts, limit: rule.NotFinite, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    skipped = [entry for entry in facts.unapplied if entry[0] > facts.step - limit.window]
    if len(skipped) < (1 if is_open else limit.steps):
        return
    number, why, _ = skipped[-1]
    among = min(limit.window, facts.step)
    yield AlertFinding(
        f"{len(skipped):,} of the last {among:,} steps {'was' if len(skipped) == 1 else 'were'}"
        f" not applied, the latest at step {number:,}: {why}.",
        "Check the gradient norm and the learning rate. Lower optimizer.learning_rate or"
        " max_grad_norm in a new run.",
        skipped[0][2],
        float(len(skipped)),
    )


def kl(facts: Facts, limit: rule.Kl, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    """Report a mean KL divergence over its limit, to the reference and to the sampling policy."""
    for name, maximum, source in (
        ("kl", limit.reference, "the reference model"),
        ("behaviour_kl", limit.behaviour, "the sampling weights"),
    ):
        newest = facts.curves.get(name, ())[-limit.steps :]
        if len(newest) < limit.steps:
            continue
        mean = statistics.fmean(_values(newest))
        if mean > maximum * (HYSTERESIS if name in is_open else 1.0):
            yield AlertFinding(
                f"The policy is {mean:.3g} nats per token from {source}, mean of steps"
                f" {newest[0][0]:,} to {newest[-1][0]:,}; the limit is {maximum:g}.",
                (
                    "Lower the learning rate or raise the KL coefficient in a new run from an"
                    " earlier version."
                    if name == "kl"
                    else (
                        "Allow less staleness (max_staleness), or lower the learning rate in a new"
                        " run."
                    )
                ),
                facts.now,
                mean,
                name,
            )


def agreement(
    facts: Facts, limit: rule.Agreement, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    for sign in facts.scorers:
        yield AlertFinding(
            sign.words,
            "Check its calibration. Lower its weight, or collect more ratings.",
            sign.since,
            0.0,
            sign.key,
        )
    for sign in facts.suspicions:
        if sign.key == DIVERGENCE:
            yield AlertFinding(
                sign.words,
                "Review the sample. Then change weights, drop it or dismiss it.",
                sign.since,
                0.0,
                sign.key,
            )


def suspected(
    facts: Facts, limit: rule.Suspected, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    for sign in facts.suspicions:
        if sign.key != DIVERGENCE:
            yield AlertFinding(
                sign.words,
                "Review the sample. Then change weights, drop it or dismiss it.",
                sign.since,
                0.0,
                sign.key,
            )


def entropy(facts: Facts, limit: rule.Entropy, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    newest = facts.curves.get("entropy", ())[-limit.steps :]
    first = facts.first_entropy[: limit.steps]
    if not first or len(newest) < limit.steps or newest[0][0] <= limit.steps:
        return
    success = _values(facts.curves.get("success", ())[-limit.steps :])
    at_first = statistics.fmean(_values(first))
    now = statistics.fmean(_values(newest))
    if now >= limit.share * at_first / (HYSTERESIS if is_open else 1.0) or (
        success and statistics.fmean(success) >= limit.success
    ):
        return
    solved = (
        f", while {statistics.fmean(success):.0%} of the replies get the full reward"
        if success
        else ""
    )
    yield AlertFinding(
        f"The entropy is {now:.3g} nats per token, {now / at_first:.1%} of the initial"
        f" {at_first:.3g} (means of {limit.steps:,} steps){solved}.",
        "The policy no longer explores. Start a new run from an earlier version with a KL term,"
        " an entropy bonus or a higher temperature.",
        facts.now,
        now,
    )


def behaviour_gap(
    facts: Facts, limit: rule.BehaviourGap, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    """Report a gap between engine and trainer that is large for this run.

    It is compared with the run's first steps, since the usual gap depends on precision and
    staleness.
    """
    newest = facts.curves.get("behaviour_gap", ())[-limit.steps :]
    first = [value for step, value in facts.first_gap if step <= limit.baseline_steps]
    if not first or len(newest) < limit.steps or newest[0][0] <= limit.baseline_steps:
        return
    at_first = statistics.median(first)  # the median: during warm-up there is next to no gap
    now = statistics.fmean(_values(newest))
    maximum = max(limit.min_gap, limit.max_ratio * at_first)
    if now > maximum * (HYSTERESIS if is_open else 1.0):
        yield AlertFinding(
            f"Engine and trainer differ by {now:.3g} nats per token, mean of steps"
            f" {newest[0][0]:,} to {newest[-1][0]:,}. The median of the first"
            f" {limit.baseline_steps:,} steps was {at_first:.3g}; the limit is {maximum:.3g}.",
            "Allow less staleness (max_staleness) or lower the learning rate. If neither helps,"
            " compare the precision of engine and trainer, or use a loss with a correction"
            " (decoupled) in a new run.",
            facts.now,
            now,
        )


def unacknowledged(
    facts: Facts, limit: rule.Unacknowledged, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    if facts.unserved is None or not facts.plan.samples:
        return
    version, at = facts.unserved
    since = max(at, facts.live_since)
    if facts.since(since) >= limit.after_s:
        yield AlertFinding(
            f"Version {version:,} was published {format_duration(facts.since(at))} ago,"
            " and no engine has acknowledged it or a later one.",
            "Check that an explorer runs, and read its log: it may not have access to the"
            " weights folder.",
            since,
            facts.since(since),
        )


def breaker(facts: Facts, limit: rule.Breaker, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    """Report environments whose circuit breaker has opened, until their first success."""
    for environment in facts.failing:
        state_words = (
            "is paused until" if environment.until > facts.now else "has been retried since"
        )
        yield AlertFinding(
            f"Environment {environment.name} failed {environment.failures:,} times in a row, and"
            f" {state_words} {environment.until:%H:%M} UTC: {environment.reason}",
            "Fix the environment, then close its breaker on its page.",
            facts.now,
            float(environment.failures),
            environment.name,
        )


def disk(facts: Facts, limit: rule.Disk, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    for volume in facts.disks:
        free = volume.free / volume.total if volume.total else 0.0
        if free < limit.min_free_share / (HYSTERESIS if volume.name in is_open else 1.0):
            yield AlertFinding(
                f"Only {volume.free / 1e9:.1f} GB of {volume.total / 1e9:.0f} GB are free under"
                f" {volume.name}: {free:.1%}; the minimum is {limit.min_free_share:.0%}.",
                "Keep fewer checkpoints and versions (checkpoints.weights), delete arrays"
                " earlier (retention), or free disk space.",
                facts.now,
                free,
                volume.name,
            )


def silence(facts: Facts, limit: rule.Silence, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    for role in _needed(facts.plan):
        heartbeat = facts.heartbeats.get(role)
        since = max(heartbeat, facts.live_since) if heartbeat else facts.live_since
        if facts.since(since) < limit.after_s:
            continue
        last = (
            f"last heartbeat {format_duration(facts.since(heartbeat))} ago"
            if heartbeat
            else "no heartbeat so far"
        )
        yield AlertFinding(
            f"No {role} is running: {last}.",
            "Start one with manage.py up, or a Celery worker for its queue. Its log shows why it"
            " ended.",
            since,
            facts.since(since),
            role,
        )


def lost_worker(
    facts: Facts, limit: rule.LostWorker, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    """Report workers of a needed role that were lost while the run was live.

    When no other worker of the role is left, the rule `silence` reports it, unless this rule's
    alert is already open.
    """
    for worker in facts.lost:
        gone_for = facts.since(worker.since)
        if worker.role not in _needed(facts.plan) or worker.since < facts.live_since:
            continue
        if worker.is_dead and not (
            limit.after_s <= gone_for < limit.removed_after_s
            and (worker.others or worker.key in is_open)
        ):
            continue
        others_words = (
            f"{worker.others:,} other{' is' if worker.others == 1 else 's are'} running."
            if worker.others
            else "No other is running."
        )
        if worker.is_dead:
            last = (
                f"The {worker.role} {worker.key} is dead:"
                f" last heartbeat {format_duration(gone_for)} ago."
            )
            todo = (
                "Read its log on its page under Workers. A new worker on the same host replaces it."
            )
        else:
            last = (
                f"The {worker.role} {worker.key} was quarantined {format_duration(gone_for)} ago,"
                f" {worker.why.rstrip('.')}."
            )
            todo = "End its quarantine on its page under Workers, or stop its process."
        yield AlertFinding(f"{last} {others_words}", todo, worker.since, gone_for, worker.key)


def control_worker_late(
    facts: Facts, limit: rule.ControlWorkerLate, is_open: frozenset[str]
) -> Iterator[AlertFinding]:
    control = facts.control
    if control is not None and control.behind_s >= limit.after_s:
        words = f"{control.words} Expired leases, imports, exports and alerts are late."
        yield AlertFinding(words, control.todo, control.since, control.behind_s)


def budget(facts: Facts, limit: rule.NearBudget, is_open: frozenset[str]) -> Iterator[AlertFinding]:
    for name, maximum in (facts.plan.budget.model_dump() if facts.plan.budget else {}).items():
        used = facts.spent.get(name, 0.0)
        if maximum is None or used < limit.share * maximum:
            continue
        is_over = used >= maximum
        yield AlertFinding(
            (
                f"{used:,.4g} of {maximum:,.4g} {UNITS[name]} used:"
                f" {used / maximum:.0%} of the budget."
            ),
            (
                "The run is paused. Raise the limit on the Cost page, then resume the run."
                if is_over
                else (
                    "The run pauses when the budget is used up. To avoid this, raise the limit"
                    " on the Cost page."
                )
            ),
            facts.now,
            used,
            name,
            is_over,
        )


RULES: dict[str, RuleCheck] = {
    "no_progress": no_progress,
    "starvation": starvation,
    "nothing_learned": nothing_learned,
    "not_finite": not_finite,
    "kl": kl,
    "agreement": agreement,
    "suspected": suspected,
    "entropy": entropy,
    "behaviour_gap": behaviour_gap,
    "unacknowledged": unacknowledged,
    "breaker": breaker,
    "disk": disk,
    "silence": silence,
    "lost_worker": lost_worker,
    "control_worker_late": control_worker_late,
    "budget": budget,
}
# Rules whose condition a stopped run cannot change: their alerts close when it is paused, unless
# they paused it.
WHILE_LIVE = (
    "no_progress",
    "starvation",
    "unacknowledged",
    "silence",
    "lost_worker",
    "control_worker_late",
)


def format_duration(seconds: float) -> str:
    """Format a duration as text: 40 s, 12 min, 3 h 20 min, 2 days."""
    length = timedelta(seconds=round(seconds))
    minutes = length // timedelta(minutes=1)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{length.days} days"


def _needed(plan: RunConfig) -> tuple[str, ...]:
    """Return the worker roles without which the run makes no progress."""
    sampling = ("explorer", "scorer", "refiner") if plan.samples else ()
    return sampling if plan.evaluation else (*sampling, "trainer")


def _values(points: Points) -> Sequence[float]:
    return [value for _, value in points]


def _waits_for_callers(facts: Facts) -> bool:
    """Tell whether a serving run has no callers: then there is nothing to learn from.

    This is not a fault.
    """
    return facts.plan.serve is not None and not facts.groups_by_state
