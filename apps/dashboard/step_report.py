"""What happened around one step of a run, for the question why a curve moved there."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from apps.accounts.models import User
from apps.alerts.models import Alert
from apps.dashboard.curves import describe_entry, marked_entries
from apps.dashboard.differences import Difference, list_field_differences
from apps.dashboard.step_metrics import StepMetrics, metrics_of_step
from apps.dashboard.step_rollouts import Batch, StepRollouts, batch_of_step, rollouts_of_step
from apps.feedback.answer_texts import rating_in_words
from apps.feedback.models import Rating
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, WeightVersion

MAX_CHANGES = 20
MAX_ALERTS = 10
RATINGS_SHOWN = 5
DROPPED_AMONG = 1_000  # newest dropped groups whose reasons are counted
REASONS_SHOWN = 6


@dataclass(frozen=True)
class Between:
    """The time from the end of the step before to the end of a step.

    `since` is None for the first step.
    """

    since: datetime | None
    until: datetime

    def on(self, field: str) -> dict[str, datetime]:
        """Return this time as a filter on a field."""
        conditions = {f"{field}__lte": self.until}
        return conditions if self.since is None else conditions | {f"{field}__gt": self.since}


@dataclass(frozen=True)
class ConfigChange:
    """A change of the configuration by a person, or an action such as a pause, in words."""

    at: datetime
    by: str
    fields: Sequence[Difference] = ()
    words: str = ""
    reason: str = ""


@dataclass(frozen=True)
class StepRatings:
    """The ratings of a batch: how many by people and simulated, and the newest in words."""

    people: int
    simulated: int
    newest: list[tuple[Rating, str]]


@dataclass(frozen=True)
class Dropped:
    """The groups dropped since the step before; `reasons` are the most common ones.

    `is_cut` says that there were more, and that only the newest were counted.
    """

    count: int
    reasons: list[tuple[str, int, int]]  # reason, groups, the newest such group
    is_cut: bool


@dataclass(frozen=True)
class StepReport:
    """Everything that a step's page shows; `version` was taken after the step, if any was."""

    step: TrainStep
    is_last: bool
    batch: Batch
    rollouts: StepRollouts
    metrics: StepMetrics
    changes: list[ConfigChange]
    values: list[Difference]  # settings that this step used and the step before did not
    alerts: list[Alert]
    ratings: StepRatings
    dropped: Dropped
    version: WeightVersion | None
    examples: int


def build_step_report(run: Run, step: TrainStep, user: User, steers: bool) -> StepReport:
    """Return the report of a committed step, in a number of queries that does not grow.

    The caller checks that the user sees the run's rewards, and whether they steer it.
    """
    assert step.committed_at is not None
    before = run.steps.filter(number=step.number - 1).first()
    between = Between(before.committed_at if before else None, step.committed_at)
    batch = batch_of_step(step)
    return StepReport(
        step=step,
        is_last=step.number >= run.step,
        batch=batch,
        rollouts=rollouts_of_step(run, batch, user),
        metrics=metrics_of_step(run, step.number),
        changes=_changes(run, between),
        values=list(list_field_differences(before.knobs, step.knobs)) if before else [],
        alerts=_alerts(run, between, steers),
        ratings=_ratings(batch),
        dropped=_dropped_groups(run, between),
        version=_version_after(run, step),
        examples=step.lessons.count() if run.settings.algorithm.learns_from_lessons else 0,
    )


def _changes(run: Run, between: Between) -> list[ConfigChange]:
    """Return what people changed, the newest first."""
    events = run.topic.events.filter(kind="config_changed", **between.on("at")).order_by("-pk")
    changes = [
        ConfigChange(
            at=event.at,
            by=event.payload.get("by", ""),
            fields=list(list_field_differences(event.payload["before"], event.payload["after"])),
            reason=event.payload.get("reason", ""),
        )
        for event in events[:MAX_CHANGES]
    ]
    entries = marked_entries(run, between.on("at"))
    changes += [
        ConfigChange(
            at=entry.at,
            by=entry.name,
            words=describe_entry(entry),
            reason=entry.details.get("reason", ""),
        )
        for entry in entries[:MAX_CHANGES]
    ]
    return sorted(changes, key=lambda change: change.at, reverse=True)[:MAX_CHANGES]


def _alerts(run: Run, between: Between, steers: bool) -> list[Alert]:
    """Return the alerts that were open at some moment between, the newest first."""
    alerts = Alert.objects.of_judged_run(run, steers).filter(opened_at__lte=between.until)
    if between.since is not None:
        alerts = alerts.filter(Q(closed_at=None) | Q(closed_at__gt=between.since))
    return list(alerts.order_by("-pk")[:MAX_ALERTS])


def _ratings(batch: Batch) -> StepRatings:
    """Return the ratings in force of the batch's rollouts and groups."""
    standing = Rating.objects.counting().order_by()
    of_rollouts = standing.filter(rollout__in=[row.rollout for row in batch.rollouts])
    of_groups = standing.filter(item__group__in=batch.groups, rollout=None)
    columns = ("pk", "rater__is_simulated")
    raters = dict(of_rollouts.values_list(*columns)) | dict(of_groups.values_list(*columns))
    newest = Rating.objects.filter(pk__in=_newest_by_people(raters)).select_related("rater")
    simulated = sum(raters.values())
    return StepRatings(
        people=len(raters) - simulated,
        simulated=simulated,
        newest=[(rating, rating_in_words(rating)) for rating in newest.order_by("-pk")],
    )


def _newest_by_people(raters: dict[int, bool]) -> Collection[int]:
    people = [pk for pk, is_simulated in raters.items() if not is_simulated]
    return sorted(people, reverse=True)[:RATINGS_SHOWN]


def _dropped_groups(run: Run, between: Between) -> Dropped:
    dropped = run.groups.filter(state=Group.State.DROPPED, **between.on("closed_at"))
    rows = list(dropped.order_by("-closed_at").values_list("reason", "pk")[:DROPPED_AMONG])
    newest = dict(reversed(rows))
    counts = Counter(reason for reason, _ in rows)
    return Dropped(
        count=len(rows),
        reasons=[
            (reason, count, newest[reason]) for reason, count in counts.most_common(REASONS_SHOWN)
        ],
        is_cut=len(rows) == DROPPED_AMONG,
    )


def _version_after(run: Run, step: TrainStep) -> WeightVersion | None:
    number = step.number // run.settings.sync_interval
    return run.weight_versions.filter(version=number, step=step.number).first()
