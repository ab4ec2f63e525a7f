"""Evaluate the alert rules over all live runs: open, keep and close alerts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, unit_of_work
from apps.alerts.budget_pauses import hold_evaluations
from apps.alerts.facts import Facts, facts_of_control, gather_facts
from apps.alerts.models import Alert, AlertEntry
from apps.alerts.rules import RULES, WHILE_LIVE, AlertFinding, apply_rule
from apps.runs.config import ConfigError
from apps.runs.costs import load_spending
from apps.runs.models import NotPossible, Run

log = structlog.get_logger(__name__)
LOCK = 0x616C_6572  # key of the advisory lock that allows one evaluation at a time
CONTROL = "control_worker_late"
PAUSED = "the run is paused"
ENDED = "the run has ended"
OFF = "the rule is off"
GONE = "the condition no longer holds"


def look_at_runs() -> dict[str, int]:
    """Apply all rules to all live runs and return counts of what changed.

    The counts cover alerts opened and closed, runs paused, and evaluations paused and resumed. A
    second call at the same time does nothing.
    """
    return _with_lock(_evaluate_all_rules)


def look_at_control() -> dict[str, int]:
    """Apply the rule `control_worker_late` alone.

    Web processes call this while the control plane is behind.
    """
    return _with_lock(_evaluate_control_rule)


def _with_lock(look_now: Callable[[], dict[str, int]]) -> dict[str, int]:
    with (
        connection.cursor() as cursor
    ):  # a lock of the session: each run is settled in a transaction of its own
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LOCK])
        if not cursor.fetchone()[0]:
            return {}
        try:
            return look_now()
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK])


def _evaluate_all_rules() -> dict[str, int]:
    has_alerts = Exists(Alert.objects.open().filter(run=OuterRef("pk")))
    runs = _select_runs(Q(state=Run.State.RUNNING) | Q(has_alerts))
    counts = _settle_all(runs, gather_facts(runs, load_spending(runs)), Alert.objects.open())
    counts.update(hold_evaluations())
    return {what: count for what, count in counts.items() if count}


def _evaluate_control_rule() -> dict[str, int]:
    runs = _select_runs(Q(state=Run.State.RUNNING))
    alerts = Alert.objects.open().filter(rule=CONTROL)
    counts = _settle_all(runs, facts_of_control(runs), alerts, only=frozenset({CONTROL}))
    return {what: count for what, count in counts.items() if count}


def _select_runs(condition: Q) -> list[Run]:
    return _readable(
        Run.objects.filter(condition).order_by("pk").select_related("project", "topic", "policy")
    )


def _settle_all(
    runs: Iterable[Run],
    facts: Mapping[int, Facts],
    alerts: QuerySet[Alert],
    only: frozenset[str] = frozenset(RULES),
) -> Counter[str]:
    alerts_by_run: dict[int, list[Alert]] = defaultdict(list)
    for alert in alerts.filter(run__in=runs).order_by("pk"):
        alerts_by_run[alert.run_id].append(alert)
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(_settle_alone(run, facts[run.pk], alerts_by_run[run.pk], only))
    return counts


def _readable(runs: Iterable[Run]) -> list[Run]:
    """Return the runs whose configuration this release can read.

    A run whose configuration another release wrote is skipped, so that it does not block the
    others.
    """
    readable = []
    for run in runs:
        try:
            readable += [run] if run.settings else []
        except ConfigError as error:
            log.error("configuration_unreadable", run=run, reason=str(error))
    return readable


def _settle_alone(
    run: Run, facts: Facts, known_alerts: list[Alert], only: frozenset[str]
) -> Counter[str]:
    """Settle one run and log any exception, so that the other runs are still evaluated."""
    try:
        return _settle(run, facts, known_alerts, only)
    except (OperationalError, InterfaceError):  # the database is unavailable for every run
        raise
    except Exception:
        log.exception("run_not_checked", run=run)
        return Counter()


def _settle(
    run: Run, facts: Facts, known_alerts: list[Alert], only: frozenset[str]
) -> Counter[str]:
    """Bring the run's alerts into line with what the rules find now.

    Alerts of a rule that raised an exception stay as they are.
    """
    open_alerts = {(alert.rule, alert.key): alert for alert in known_alerts}
    findings, broken = _evaluate_rules(run, facts, open_alerts, only)
    _update_open_alerts(open_alerts, findings)
    new = {place: finding for place, finding in findings.items() if place not in open_alerts}
    unseen = [
        alert
        for place, alert in open_alerts.items()
        if place not in findings and place[0] not in broken
    ]
    over = {alert: why for alert in unseen if (why := _why_over(run, facts, alert))}
    pausing = [
        place
        for place, finding in findings.items()
        if _asks_for_pause(run, facts, open_alerts.get(place), place[0], finding)
    ]
    if not (new or over or pausing):
        return Counter()
    return _write(run, open_alerts, findings, new, over, pausing)


def _update_open_alerts(
    open_alerts: Mapping[tuple[str, str], Alert], findings: Mapping[tuple[str, str], AlertFinding]
) -> None:
    """Update the alerts that were found again: when they were seen, and changed texts."""
    found_again = {place: alert for place, alert in open_alerts.items() if place in findings}
    for place, alert in found_again.items():
        finding = findings[place]
        if (alert.words, alert.todo) != (finding.words, finding.todo):
            Alert.objects.filter(pk=alert.pk).update(
                words=finding.words, todo=finding.todo, measured=finding.measured
            )
    if found_again:
        Alert.objects.filter(pk__in=[alert.pk for alert in found_again.values()]).update(
            seen_at=Now()
        )


@unit_of_work
def _write(
    run: Run, open_alerts: dict, findings: dict, new: dict, over: dict, pausing: list
) -> Counter[str]:
    """Write a run's opened, updated and closed alerts in one transaction.

    The run's row is locked first, as in every transaction that changes a run and records an event.
    A run whose state has changed meanwhile is left for the next evaluation.
    """
    locked = Run.locked(run.pk, "project", "topic")
    if locked.state != run.state:
        return Counter()
    pausing_alerts = [open_alerts[place] for place in pausing if place in open_alerts]
    lock_ids(Alert.objects.filter(pk__in=[alert.pk for alert in (*over, *pausing_alerts)]))
    opened = {place: _open(locked, place, finding) for place, finding in new.items()}
    for alert, why in over.items():
        _close(locked, alert, why)
    paused = sum(
        _pause(locked, (open_alerts | opened)[place], findings[place]) for place in pausing
    )
    return Counter(opened=len(opened), closed=len(over), paused=paused)


def _evaluate_rules(
    run: Run, facts: Facts, open_alerts: Mapping[tuple[str, str], Alert], only: frozenset[str]
) -> tuple[dict[tuple[str, str], AlertFinding], set[str]]:
    """Return the findings by (rule, key), and the rules that raised an exception.

    Rules are applied to live runs only.
    """
    findings: dict[tuple[str, str], AlertFinding] = {}
    broken: set[str] = set()
    for name in (name for name in RULES if run.is_live and name in only):
        keys = frozenset(key for rule, key in open_alerts if rule == name)
        try:
            findings |= {
                (name, finding.key[:100]): finding for finding in apply_rule(facts, name, keys)
            }
        except Exception:  # whatever failed in this rule, the others still apply
            log.exception("rule_failed", run=run, rule=name)
            broken.add(name)
    return findings, broken


def _why_over(run: Run, facts: Facts, alert: Alert) -> str:
    """Return why an alert ends, or an empty string if it stays open.

    An alert that paused its run stays open until the run is live again and is evaluated.
    """
    if run.state in Run.ENDED:
        return ENDED
    if getattr(facts.plan.alerts, alert.rule, None) is None:
        return OFF
    if run.is_live:
        return GONE
    return PAUSED if alert.rule in WHILE_LIVE and not alert.has_paused else ""


def _open(run: Run, place: tuple[str, str], finding: AlertFinding) -> Alert:
    rule, key = place
    alert = Alert.objects.create(
        run=run,
        rule=rule,
        key=key,
        words=finding.words,
        todo=finding.todo,
        measured=finding.measured,
        since=finding.since,
    )
    alert.enter(AlertEntry.What.OPENED, finding.words)
    run.topic.record("alert_opened", alert=alert.pk, rule=rule, words=finding.words)
    log.warning("alert_opened", run=run, rule=rule, words=finding.words)
    return alert


def _close(run: Run, alert: Alert, why: str) -> None:
    Alert.objects.filter(pk=alert.pk, closed_at=None).update(closed_at=Now(), closed_for=why)
    alert.run = run
    alert.enter(AlertEntry.What.CLOSED, why)
    run.topic.record("alert_closed", alert=alert.pk, rule=alert.rule, reason=why)
    log.info("alert_closed", run=run, rule=alert.rule, reason=why)


def _asks_for_pause(
    run: Run, facts: Facts, alert: Alert | None, rule: str, finding: AlertFinding
) -> bool:
    """Tell whether a finding must pause its run.

    Each alert pauses its run once, because whoever resumes the run has seen it. A budget that is
    used up pauses the run each time it is resumed.
    """
    is_new = alert is None or not alert.has_paused
    return run.is_live and (finding.is_final or (is_new and getattr(facts.plan.alerts, rule).pause))


def _pause(run: Run, alert: Alert, finding: AlertFinding) -> int:
    try:
        run.pause(reason=f"{alert.title}: {finding.words}"[:500])
    except NotPossible:  # another alert of this evaluation paused it already
        return 0
    Alert.objects.filter(pk=alert.pk).update(has_paused=True)
    alert.run = run
    alert.enter(AlertEntry.What.PAUSED, finding.words)
    return 1
