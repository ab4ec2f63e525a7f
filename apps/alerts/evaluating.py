"""The look over all live runs: what the rules find opens alerts, keeps them open, and ends those that hold no more."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, unit_of_work
from apps.alerts.facts import Facts, facts_of, facts_of_control
from apps.alerts.holding import hold_evaluations
from apps.alerts.models import Alert, AlertEntry
from apps.alerts.rules import RULES, WHILE_LIVE, Found, look
from apps.runs.config import ConfigError
from apps.runs.costs import spent_of
from apps.runs.models import NotPossible, Run

log = structlog.get_logger(__name__)
LOCK = 0x616C_6572  # names the one look at a time among the database's advisory locks
CONTROL = "control_behind"
PAUSED, ENDED, OFF, GONE = "the run is paused", "the run has ended", "the rule is switched off", "its condition is gone"


def look_at_runs() -> dict[str, int]:
    """Alerts opened and closed, runs paused, evaluations held and resumed. A second look at once does nothing."""
    return _alone(_look)


def look_at_control() -> dict[str, int]:
    """The same for the rule `control_behind` alone: what a web process does while the control plane is behind."""
    return _alone(_look_at_control)


def _alone(look_now: Callable[[], dict[str, int]]) -> dict[str, int]:
    with connection.cursor() as cursor:  # a lock of the session: what becomes of each run is a transaction of its own
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LOCK])
        if not cursor.fetchone()[0]:
            return {}
        try:
            return look_now()
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK])


def _look() -> dict[str, int]:
    has_alerts = Exists(Alert.objects.open().filter(run=OuterRef("pk")))
    runs = _concerned(Q(state=Run.State.RUNNING) | has_alerts)
    done = _settle_all(runs, facts_of(runs, spent_of(runs)), Alert.objects.open())
    done.update(hold_evaluations())
    return {what: count for what, count in done.items() if count}


def _look_at_control() -> dict[str, int]:
    runs = _concerned(Q(state=Run.State.RUNNING))
    alerts = Alert.objects.open().filter(rule=CONTROL)
    done = _settle_all(runs, facts_of_control(runs), alerts, only=frozenset({CONTROL}))
    return {what: count for what, count in done.items() if count}


def _concerned(which: Q) -> list[Run]:
    return _readable(Run.objects.filter(which).order_by("pk").select_related("project", "topic", "policy"))


def _settle_all(
    runs: Iterable[Run],
    facts: Mapping[int, Facts],
    alerts: QuerySet[Alert],
    only: frozenset[str] = frozenset(RULES),
) -> Counter[str]:
    known: dict[int, list[Alert]] = defaultdict(list)
    for alert in alerts.filter(run__in=runs).order_by("pk"):
        known[alert.run_id].append(alert)
    done: Counter[str] = Counter()
    for run in runs:
        done.update(_settle_alone(run, facts[run.pk], known[run.pk], only))
    return done


def _readable(runs: Iterable[Run]) -> list[Run]:
    """One whose configuration another release wrote is left alone: it must not keep us from the others."""
    found = []
    for run in runs:
        try:
            found += [run] if run.settings else []
        except ConfigError as error:
            log.error("configuration_unreadable", run=run, reason=str(error))
    return found


def _settle_alone(run: Run, facts: Facts, known: list[Alert], only: frozenset[str]) -> Counter[str]:
    """Whatever goes wrong with one run must not leave the others unwatched."""
    try:
        return _settle(run, facts, known, only)
    except (OperationalError, InterfaceError):  # the database is away: for all of them
        raise
    except Exception:
        log.exception("run_not_looked_at", run=run)
        return Counter()


def _settle(run: Run, facts: Facts, known: list[Alert], only: frozenset[str]) -> Counter[str]:
    """Set the run's alerts in accord with what the rules find now. Those of a rule that broke stay as they are."""
    open_ones = {(alert.rule, alert.key): alert for alert in known}
    found, broken = _found(run, facts, open_ones, only)
    for place, one in found.items():
        if (alert := open_ones.get(place)) and (alert.words, alert.todo) != (one.words, one.todo):
            Alert.objects.filter(pk=alert.pk).update(words=one.words, todo=one.todo, figure=one.figure)
    if held := [alert.pk for place, alert in open_ones.items() if place in found]:
        Alert.objects.filter(pk__in=held).update(seen_at=Now())
    new = {place: one for place, one in found.items() if place not in open_ones}
    gone = {place: alert for place, alert in open_ones.items() if place not in found and place[0] not in broken}
    over = {alert: why for alert in gone.values() if (why := _why_over(run, facts, alert))}
    pausing = [place for place, one in found.items() if _asks_for_pause(run, facts, open_ones.get(place), place[0], one)]
    if not (new or over or pausing):
        return Counter()
    return _write(run, open_ones, found, new, over, pausing)


@unit_of_work
def _write(run: Run, open_ones: dict, found: dict, new: dict, over: dict, pausing: list) -> Counter[str]:
    """The run's row is locked first, as by all that move a run and tell of it. One that has moved meanwhile is left for now."""
    locked = Run.locked(run.pk, "project", "topic")
    if locked.state != run.state:
        return Counter()
    known = [open_ones[place] for place in pausing if place in open_ones]
    lock_ids(Alert.objects.filter(pk__in=[alert.pk for alert in (*over, *known)]))
    opened = {place: _open(locked, place, one) for place, one in new.items()}
    for alert, why in over.items():
        _close(locked, alert, why)
    paused = sum(_pause(locked, (open_ones | opened)[place], found[place]) for place in pausing)
    return Counter(opened=len(opened), closed=len(over), paused=paused)


def _found(
    run: Run, facts: Facts, open_ones: Mapping[tuple[str, str], Alert], only: frozenset[str]
) -> tuple[dict[tuple[str, str], Found], set[str]]:
    """By rule and key; and the rules that broke over this run. One that does not run has nothing new the matter."""
    found: dict[tuple[str, str], Found] = {}
    broken: set[str] = set()
    for name in (name for name in RULES if run.is_live and name in only):
        keys = frozenset(key for rule, key in open_ones if rule == name)
        try:
            found |= {(name, one.key[:100]): one for one in look(facts, name, keys)}
        except Exception:  # pure functions of figures: whatever it is, the other rules still hold
            log.exception("rule_failed", run=run, rule=name)
            broken.add(name)
    return found, broken


def _why_over(run: Run, facts: Facts, alert: Alert) -> str:
    """Empty: it stays. What a paused run was paused for stays until it runs again and is looked at."""
    if run.state in Run.ENDED:
        return ENDED
    if getattr(facts.plan.alerts, alert.rule, None) is None:
        return OFF
    if run.is_live:
        return GONE
    return PAUSED if alert.rule in WHILE_LIVE and not alert.has_paused else ""


def _open(run: Run, place: tuple[str, str], one: Found) -> Alert:
    rule, key = place
    alert = Alert.objects.create(run=run, rule=rule, key=key, words=one.words, todo=one.todo, figure=one.figure, since=one.since)
    alert.enter(AlertEntry.What.OPENED, one.words)
    run.topic.record("alert_opened", alert=alert.pk, rule=rule, words=one.words)
    log.warning("alert_opened", run=run, rule=rule, words=one.words)
    return alert


def _close(run: Run, alert: Alert, why: str) -> None:
    Alert.objects.filter(pk=alert.pk, closed_at=None).update(closed_at=Now(), closed_for=why)
    alert.run = run
    alert.enter(AlertEntry.What.CLOSED, why)
    run.topic.record("alert_closed", alert=alert.pk, rule=alert.rule, reason=why)
    log.info("alert_closed", run=run, rule=alert.rule, reason=why)


def _asks_for_pause(run: Run, facts: Facts, alert: Alert | None, rule: str, one: Found) -> bool:
    """Once for each alert, as who resumes the run has looked; but a budget that is used up, as often as it is resumed."""
    is_new = alert is None or not alert.has_paused
    return run.is_live and (one.is_final or (is_new and getattr(facts.plan.alerts, rule).pause))


def _pause(run: Run, alert: Alert, one: Found) -> int:
    try:
        run.pause(reason=f"{alert.title}: {one.words}"[:500])
    except NotPossible:  # another alert of this look did already
        return 0
    Alert.objects.filter(pk=alert.pk).update(has_paused=True)
    alert.run = run
    alert.enter(AlertEntry.What.PAUSED, one.words)
    return 1
