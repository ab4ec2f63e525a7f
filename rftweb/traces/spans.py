"""Spans of groups: sampled → scored → rated by people → refined → trained → published → loaded.

There is one trace for each group, with its rollouts inside. Times are those of the rows. Traces
contain no text, and no person's name.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Min

from apps.buffer.models import Experience, StepItem
from apps.feedback.models import Item
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Acknowledgement, Run, TrainStep, WeightVersion

Attributes = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class Span:
    """A span; `key` names its row, `parent` is the key of the enclosing span in the same trace."""

    trace: str
    key: str
    name: str
    start: datetime
    end: datetime
    parent: str = ""
    attributes: Attributes = field(default_factory=dict)
    failure: str = ""

    @property
    def trace_id(self) -> int:
        """Return the trace id, 128 bits."""
        return _number(self.trace, 16)

    @property
    def span_id(self) -> int:
        """Return the span id, 64 bits."""
        return _number(f"{self.trace}/{self.key}", 8)

    @property
    def parent_id(self) -> int | None:
        return _number(f"{self.trace}/{self.parent}", 8) if self.parent else None


def _number(text: str, size: int) -> int:
    """Hash a text to a number that is never 0, which OpenTelemetry treats as invalid."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


@dataclass(frozen=True)
class Rows:
    """The rows of some groups, with one query per table."""

    rollouts: dict[int, list[Rollout]]
    rewards: dict[int, list[Reward]]
    requested_at: dict[int, datetime]
    steps: dict[int, list[TrainStep]]
    versions: dict[int, WeightVersion]
    words: dict[int, list[Acknowledgement]]


def load_span_rows(run: Run, groups: Sequence[Group]) -> Rows:
    ids = [group.pk for group in groups]
    rollouts = Rollout.objects.filter(group__in=ids).defer("text", "turns").order_by("sample_index")
    rewards = Reward.objects.filter(rollout__group__in=ids).defer("details")
    step_items = StepItem.objects.filter(
        experience__group__in=ids, step__state=TrainStep.State.COMMITTED
    )
    steps: dict[int, dict[int, TrainStep]] = defaultdict(dict)
    for item in step_items.select_related("step", "experience").order_by("step__number"):
        steps[item.experience.group_id][item.step.number] = item.step
    versions = _versions(run, {number for of in steps.values() for number in of})
    words = (
        Acknowledgement.objects.filter(weight_version__in=versions.values())
        .select_related("worker")
        .order_by("at")
    )
    requested_at = (
        Item.objects.filter(group__in=ids)
        .order_by()
        .values_list("group")
        .annotate(Min("opened_at"))
    )
    return Rows(
        _by(rollouts, lambda row: row.group_id),
        _by(rewards.order_by("pk"), lambda row: row.rollout_id),
        dict(requested_at),
        {group: list(of.values()) for group, of in steps.items()},
        versions,
        _by(words, lambda row: row.weight_version_id),
    )


def _versions(run: Run, numbers: set[int]) -> dict[int, WeightVersion]:
    """Return {step: the first published weights that include it}."""
    if not numbers:
        return {}
    published = run.weight_versions.filter(
        step__gte=min(numbers), published_at__isnull=False
    ).order_by("version")
    newer = list(published.filter(step__lte=max(numbers))) + list(
        published.filter(step__gt=max(numbers))[:1]
    )
    first_published = {
        number: next((version for version in newer if version.step >= number), None)
        for number in numbers
    }
    return {number: version for number, version in first_published.items() if version}


def _by(rows: Iterable, key) -> dict[int, list]:
    rows_by_key = defaultdict(list)
    for row in rows:
        rows_by_key[key(row)].append(row)
    return rows_by_key


def build_spans(run: Run, groups: Sequence[Group]) -> Iterator[Span]:
    """Yield the spans of these closed groups."""
    rows = load_span_rows(run, groups)
    for group in groups:
        closed_at = group.closed_at
        assert closed_at is not None
        trace = f"rftweb:{run.project.slug}/{run.slug}:{group.pk}:{group.opened_at.isoformat()}"
        within = [
            *_sampled(trace, group, closed_at, rows),
            *_judging_spans(trace, group, closed_at, rows),
            *_training_spans(trace, group, rows),
        ]
        attributes: Attributes = {
            "rftweb.project": run.project.slug,
            "rftweb.run": run.slug,
            "rftweb.group": group.pk,
            "rftweb.state": group.state,
            "rftweb.opened_version": group.opened_version,
        }
        if group.draw_index is not None:
            attributes["rftweb.draw"] = group.draw_index
        end = max([closed_at, *(span.end for span in within)])
        yield Span(
            trace,
            "group",
            "group",
            group.opened_at,
            end,
            attributes=attributes,
            failure=group.reason,
        )
        yield from within


def _sampled(trace: str, group: Group, closed_at: datetime, rows: Rows) -> Iterator[Span]:
    rollouts = rows.rollouts.get(group.pk, [])
    ends = [rollout.finished_at for rollout in rollouts if rollout.finished_at]
    yield Span(
        trace,
        "sample",
        "sample",
        group.opened_at,
        group.sampled_at or max(ends, default=closed_at),
        "group",
    )
    for rollout in rollouts:
        attributes: Attributes = {
            "rftweb.rollout": rollout.pk,
            "rftweb.origin": rollout.origin,
            "rftweb.stop_reason": rollout.stop_reason,
            "rftweb.prompt_tokens": rollout.prompt_tokens,
            "rftweb.completion_tokens": rollout.completion_tokens,
        }
        attributes |= (
            {} if rollout.last_version is None else {"rftweb.weight_version": rollout.last_version}
        )
        failure = rollout.stop_reason if rollout.state == Rollout.State.FAILED else ""
        end = rollout.finished_at or closed_at
        yield Span(
            trace,
            f"rollout:{rollout.pk}",
            "rollout",
            rollout.started_at,
            end,
            "sample",
            attributes,
            failure,
        )


def _judging_spans(trace: str, group: Group, closed_at: datetime, rows: Rows) -> Iterator[Span]:
    for rollout in rows.rollouts.get(group.pk, []):
        for reward in rows.rewards.get(rollout.pk, []):
            attributes: Attributes = {
                "rftweb.rollout": rollout.pk,
                "rftweb.source": reward.source,
                "rftweb.scorer": reward.scorer,
            }
            attributes |= {} if reward.value is None else {"rftweb.value": reward.value}
            start = reward.at - timedelta(seconds=reward.seconds or 0)
            yield Span(
                trace,
                f"reward:{reward.pk}",
                f"score {reward.scorer}",
                start,
                reward.at,
                "group",
                attributes,
                reward.reason,
            )
    requested_at = rows.requested_at.get(group.pk)
    if requested_at:
        yield Span(
            trace,
            "people",
            "wait for people",
            requested_at,
            max(requested_at, group.judged_at or closed_at),
            "group",
        )
    if group.judged_at:
        yield Span(
            trace,
            "refine",
            "refine",
            group.judged_at,
            max(group.judged_at, closed_at),
            "group",
        )


def _training_spans(trace: str, group: Group, rows: Rows) -> Iterator[Span]:
    for step in rows.steps.get(group.pk, []):
        attributes: Attributes = {"rftweb.step": step.number, "rftweb.weight_version": step.version}
        key = f"step:{step.number}"
        assert step.committed_at is not None  # as selected
        yield Span(
            trace,
            key,
            "train",
            step.planned_at,
            step.committed_at,
            "group",
            attributes,
            step.skipped,
        )
        version = rows.versions.get(step.number)
        if version is None:
            continue
        assert version.published_at is not None  # as selected
        attributes = {"rftweb.weight_version": version.version}
        published = f"{key}:publish"
        yield Span(
            trace,
            published,
            "publish",
            version.staged_at,
            max(version.staged_at, version.published_at),
            key,
            attributes,
        )
        for word in rows.words.get(version.pk, []):
            start = word.at - timedelta(milliseconds=word.milliseconds)
            attributes = {"rftweb.worker": word.worker.key}
            yield Span(
                trace, f"{key}:word:{word.pk}", "acknowledge", start, word.at, published, attributes
            )


def list_settled_groups(
    run: Run, after: int, limit: int, patience: timedelta, now: datetime
) -> list[Group]:
    """Return the groups above this id, in order, up to the first that is not complete.

    Complete are groups that were dropped, that were trained and published, that were closed
    `patience` ago, and all groups of an ended run.
    """
    above = Group.objects.filter(run=run, pk__gt=after, draw_index__isnull=False).order_by("pk")[
        :limit
    ]
    groups = list(above)
    settled = []
    open_ones = set(
        Experience.objects.filter(
            group__in=[g.pk for g in groups], state__in=("ready", "claimed")
        ).values_list("group", flat=True)
    )
    steps = load_span_rows(run, groups)
    for group in groups:
        is_over = run.state in Run.ENDED or (group.closed_at and now - group.closed_at > patience)
        unpublished = any(
            step.number not in steps.versions for step in steps.steps.get(group.pk, [])
        )
        if group.closed_at is None or not (
            is_over or (group.pk not in open_ones and not unpublished)
        ):
            break
        settled.append(group)
    return settled
