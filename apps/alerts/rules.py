"""The rules: each a pure function of a run's facts and its own threshold.

It yields what is the matter now. Of an alert that is open already the threshold is a little looser, so that a figure which
hangs at its edge does not open and close it again and again.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.alerts.facts import Facts, Points
from apps.runs import alerts as rule
from apps.runs.config import RunConfig

STAYS = 0.9  # share of a limit under which a figure must come, for its alert to end
DIVERGENCE = "divergence"  # the suspicion that is about agreement
WAITS_FOR = {"waiting": "people", "scoring": "judging", "sampling": "the explorer", "judged": "the refiner"}
MEND = {
    "waiting": "Ask for raters, or ask them for less: people.per_group, people.deadline_s.",
    "scoring": "Look whether scorers run, and whether a judge's service answers; more scorers judge faster.",
    "sampling": "Look whether explorers run and how many tokens a second they say; another explorer samples beside them.",
    "judged": "Look whether the refiner runs, and what its log says.",
}
UNITS = {
    "gpu_hours": "GPU hours", "cpu_hours": "CPU hours", "tokens": "sampled tokens", "judge_tokens": "tokens of judges",
    "people_hours": "hours of people", "money": "in money",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """`words`: a sentence with the figure. `is_final`: the run pauses, whatever its configuration says of that."""

    words: str
    todo: str
    since: datetime
    figure: float
    key: str = ""
    is_final: bool = False


Look = Callable[[Facts, rule.Rule, frozenset[str]], Iterator[Found]]


def look(facts: Facts, name: str, is_open: frozenset[str] = frozenset()) -> list[Found]:
    """What the rule says of the run; `is_open`: the keys of its alerts that are open. Nothing where the run has switched it off."""
    chosen = getattr(facts.plan.alerts, name)
    if name == "budget" and chosen is None:
        chosen = rule.NearBudget(share=1.0)  # nobody wants to be told in time; the limits hold all the same
    return [] if chosen is None else list(RULES[name](facts, chosen, is_open))


def no_progress(facts: Facts, limit: rule.NoProgress, is_open: frozenset[str]) -> Iterator[Found]:
    if facts.plan.evaluation:  # it makes no updates
        return
    idle, seconds = facts.since(facts.moved_at), _values(facts.curves.get("step_seconds", ()))
    usual = statistics.median(seconds) if seconds else 0.0
    if idle < max(limit.after_s, limit.times * usual) or _waits_for_callers(facts):
        return
    pace = f"; one takes {spoken(usual)} otherwise" if seconds else ""
    waiting = f" The trainer waits for {facts.waiting_on}." if facts.waiting_on else ""
    yield Found(
        f"No update for {spoken(idle)}, at step {facts.step:,}{pace}.{waiting}",
        "Look at the stations on the run's page: the one that holds most is the one to look after."
        if facts.waiting_on
        else "Look whether a trainer runs, and at its log.",
        facts.moved_at, idle,
    )  # fmt: skip


def starvation(facts: Facts, limit: rule.Starvation, is_open: frozenset[str]) -> Iterator[Found]:
    idle = facts.since(facts.moved_at)
    if not facts.waiting_on or idle < limit.after_s or not facts.standing:
        return
    state = max(WAITS_FOR, key=lambda name: facts.standing[name].count if name in facts.standing else 0)
    held = facts.standing[state]
    yield Found(
        f"The trainer has waited {spoken(idle)} for {WAITS_FOR[state]}: {held.count:,} group{'' if held.count == 1 else 's'} "
        f"there, the oldest for {spoken(facts.since(held.since))}.",
        MEND[state], facts.moved_at, idle,
    )  # fmt: skip


def nothing_learned(facts: Facts, limit: rule.NothingLearned, is_open: frozenset[str]) -> Iterator[Found]:
    """Its condition is looked for with the facts (apps.alerts.fruitless)."""
    found = facts.fruitless
    if found is None:
        return
    causes = "; ".join(f"{count:,} × {words}" for count, words in found.causes)
    yield Found(
        f"Nothing could be learned from the last {found.groups:,} groups. Most common causes: {causes}.",
        "Look at some of the dropped groups on the page Buffer, fix the cause, and resume the run. If all answers of a "
        "group get the same reward, use easier or harder tasks, larger groups, or a scorer that tells the answers apart.",
        found.since, float(found.groups),
    )  # fmt: skip


def not_finite(facts: Facts, limit: rule.NotFinite, is_open: frozenset[str]) -> Iterator[Found]:
    skipped = [one for one in facts.unapplied if one[0] > facts.step - limit.among]
    if len(skipped) < (1 if is_open else limit.updates):
        return
    number, why, _ = skipped[-1]
    among = min(limit.among, facts.step)
    yield Found(
        f"{len(skipped):,} of the last {among:,} updates {'was' if len(skipped) == 1 else 'were'} not applied, the newest at step "
        f"{number:,}: {why}.",
        "Look at the gradient norm and the learning rate; lower optimizer.learning_rate or max_grad_norm in a new run.",
        skipped[0][2], float(len(skipped)),
    )  # fmt: skip


def kl(facts: Facts, limit: rule.Kl, is_open: frozenset[str]) -> Iterator[Found]:
    """Of the two, each by itself."""
    for name, most, whom in (("kl", limit.reference, "the reference"), ("behaviour_kl", limit.behaviour, "what sampled")):
        newest = facts.curves.get(name, ())[-limit.steps :]
        if len(newest) < limit.steps:
            continue
        mean = statistics.fmean(_values(newest))
        if mean > most * (STAYS if name in is_open else 1.0):
            yield Found(
                f"The policy is {mean:.3g} nats a token away from {whom}, mean of steps {newest[0][0]:,} to {newest[-1][0]:,}; "
                f"{most:g} is allowed.",
                "Lower the learning rate or raise the KL coefficient in a new run from an earlier version."
                if name == "kl"
                else "Allow less staleness (max_staleness), or lower the learning rate in a new run.",
                facts.now, mean, name,
            )  # fmt: skip


def agreement(facts: Facts, limit: rule.Agreement, is_open: frozenset[str]) -> Iterator[Found]:
    for sign in facts.scorers:
        yield Found(sign.words, "Look at its calibration; lower its weight, or ask people more.", sign.since, 0.0, sign.key)
    for sign in facts.suspicions:
        if sign.key == DIVERGENCE:
            yield Found(sign.words, "Look at the sample, and re-weight, drop or dismiss it.", sign.since, 0.0, sign.key)


def suspected(facts: Facts, limit: rule.Suspected, is_open: frozenset[str]) -> Iterator[Found]:
    for sign in facts.suspicions:
        if sign.key != DIVERGENCE:
            yield Found(sign.words, "Look at the sample, and re-weight, drop or dismiss it.", sign.since, 0.0, sign.key)


def entropy(facts: Facts, limit: rule.Entropy, is_open: frozenset[str]) -> Iterator[Found]:
    newest, first = facts.curves.get("entropy", ())[-limit.steps :], facts.first_entropy[: limit.steps]
    if not first or len(newest) < limit.steps or newest[0][0] <= limit.steps:
        return
    success = _values(facts.curves.get("success", ())[-limit.steps :])
    at_first, now = statistics.fmean(_values(first)), statistics.fmean(_values(newest))
    if now >= limit.share * at_first / (STAYS if is_open else 1.0) or (success and statistics.fmean(success) >= limit.success):
        return
    solved = f", while {statistics.fmean(success):.0%} of the replies get the full reward" if success else ""
    yield Found(
        f"The entropy is {now:.3g} nats a token, {now / at_first:.1%} of the {at_first:.3g} it began with (mean of {limit.steps:,} "
        f"updates each){solved}.",
        "It explores no more. Begin a new run from an earlier version with a KL term, an entropy bonus or a higher temperature.",
        facts.now, now,
    )  # fmt: skip


def unacknowledged(facts: Facts, limit: rule.Unacknowledged, is_open: frozenset[str]) -> Iterator[Found]:
    if facts.unserved is None or not facts.plan.samples:
        return
    version, at = facts.unserved
    since = max(at, facts.live_since)
    if facts.since(since) >= limit.after_s:
        yield Found(
            f"Version {version:,} was published {spoken(facts.since(at))} ago, and no engine has acknowledged it or a later one.",
            "Look whether an explorer runs and at its log: it may not see the weights' folder.",
            since, facts.since(since),
        )  # fmt: skip


def breaker(facts: Facts, limit: rule.Breaker, is_open: frozenset[str]) -> Iterator[Found]:
    """From its opening to the first success: between two rests it is only tried."""
    for one in facts.failing:
        rest = "rests until" if one.until > facts.now else "is tried again since"
        yield Found(
            f"Environment {one.name} failed {one.failures:,} times in a row, and {rest} {one.until:%H:%M} UTC: {one.reason}",
            "Mend it, then close its breaker on its page.",
            facts.now, float(one.failures), one.name,
        )  # fmt: skip


def disk(facts: Facts, limit: rule.Disk, is_open: frozenset[str]) -> Iterator[Found]:
    for room in facts.rooms:
        free = room.free / room.total if room.total else 0.0
        if free < limit.free / (STAYS if room.name in is_open else 1.0):
            yield Found(
                f"{room.free / 1e9:.1f} GB are free of the {room.total / 1e9:.0f} GB under {room.name}: {free:.1%}, and "
                f"{limit.free:.0%} should be.",
                "Keep fewer checkpoints and versions (checkpoints.weights), let arrays go (retention), or make room.",
                facts.now, free, room.name,
            )  # fmt: skip


def silence(facts: Facts, limit: rule.Silence, is_open: frozenset[str]) -> Iterator[Found]:
    for role in _needed(facts.plan):
        heard = facts.heard.get(role)
        since = max(heard, facts.live_since) if heard else facts.live_since
        if facts.since(since) < limit.after_s:
            continue
        last = f"the last spoke {spoken(facts.since(heard))} ago" if heard else "none ever spoke"
        yield Found(
            f"No {role} is alive: {last}.",
            "Start one (manage.py up does, or a Celery worker of its queue), and look at its log for why it ended.",
            since, facts.since(since), role,
        )  # fmt: skip


def lost_worker(facts: Facts, limit: rule.LostWorker, is_open: frozenset[str]) -> Iterator[Found]:
    """What happened while the run was live. Where no other of the role is left, `silence` speaks; unless this has already."""
    for one in facts.lost:
        gone_for = facts.since(one.since)
        if one.role not in _needed(facts.plan) or one.since < facts.live_since:
            continue
        if one.is_dead and not (limit.after_s <= gone_for < limit.until_s and (one.others or one.key in is_open)):
            continue
        left = f"{one.others:,} other{' is' if one.others == 1 else 's are'} alive." if one.others else "No other is left."
        if one.is_dead:
            last = f"The {one.role} {one.key} is dead: it spoke last {spoken(gone_for)} ago."
            todo = "Look at its log on its page under Workers. Another that is started on its host takes its place."
        else:
            last = f"The {one.role} {one.key} was quarantined {spoken(gone_for)} ago, {one.why.rstrip('.')}."
            todo = "Put it back on its page under Workers, or stop its process."
        yield Found(f"{last} {left}", todo, one.since, gone_for, one.key)


def control_behind(facts: Facts, limit: rule.ControlBehind, is_open: frozenset[str]) -> Iterator[Found]:
    control = facts.control
    if control is not None and control.behind_s >= limit.after_s:
        words = f"{control.words} Expired leases, imports, exports and alerts are late."
        yield Found(words, control.todo, control.since, control.behind_s)


def budget(facts: Facts, limit: rule.NearBudget, is_open: frozenset[str]) -> Iterator[Found]:
    for name, most in (facts.plan.budget.model_dump() if facts.plan.budget else {}).items():
        used = facts.spent.get(name, 0.0)
        if most is None or used < limit.share * most:
            continue
        is_over = used >= most
        yield Found(
            f"{used:,.4g} of {most:,.4g} {UNITS[name]} are used: {used / most:.0%} of the budget.",
            "The run is paused. Raise the limit on its page Cost, and resume it."
            if is_over
            else "At the whole of it the run pauses: raise the limit on its page Cost in time, or let it.",
            facts.now, used, name, is_over,
        )  # fmt: skip


RULES: dict[str, Look] = {
    "no_progress": no_progress,
    "starvation": starvation,
    "nothing_learned": nothing_learned,
    "not_finite": not_finite,
    "kl": kl,
    "agreement": agreement,
    "suspected": suspected,
    "entropy": entropy,
    "unacknowledged": unacknowledged,
    "breaker": breaker,
    "disk": disk,
    "silence": silence,
    "lost_worker": lost_worker,
    "control_behind": control_behind,
    "budget": budget,
}
# What a run that stands still cannot help: these alerts end when it is paused, unless it was paused for them.
WHILE_LIVE = ("no_progress", "starvation", "unacknowledged", "silence", "lost_worker", "control_behind")


def spoken(seconds: float) -> str:
    """40 s, 12 min, 3 h 20 min, 2 days."""
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
    """The roles without which the run stands still."""
    sampling = ("explorer", "scorer", "refiner") if plan.samples else ()
    return sampling if plan.evaluation else (*sampling, "trainer")


def _values(points: Points) -> Sequence[float]:
    return [value for _, value in points]


def _waits_for_callers(facts: Facts) -> bool:
    """Whether nobody has called a run that serves: then nothing is to be learned, and nothing is wrong."""
    return facts.plan.serve is not None and not facts.standing
