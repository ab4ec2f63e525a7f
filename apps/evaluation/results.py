"""Results of an evaluation: over all tasks, by domain, by difficulty, and the hardest tasks."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Right

from apps.evaluation.metrics import (
    MEASURES,
    Mean,
    Table,
    TaskSamples,
    are_comparable,
    build_pass_table,
    compute_means,
    is_right,
    mean_with_interval,
)
from apps.evaluation.models import EvaluationResult
from apps.rewards.combining import Judgement, combined, full_reward, success
from apps.rewards.final_answer import final_answer
from apps.rewards.judgements import load_judgements
from apps.rollouts.models import Group, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.judged_by import KEY, find_judged_kind
from apps.tasksets.models import Taskset
from apps.tasksets.models.scales import DOMAIN

AT_ONCE = 5_000  # rollouts read together with their rewards
ENDING = 2_000  # characters at a reply's end that are searched for its final answer
# Characters of a final answer that can be compared with others.
MAX_ANSWER_LENGTH = 200
BANDS = 4
SCALES = 4
HARDEST = 20
DIGITS = 6  # decimals kept of a task's metric

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class EvaluatedTask:
    """A task of the evaluation: its group, and the rewards of its samples."""

    group: int
    index: int
    task: int
    domain: str
    tried: TaskSamples
    judges: dict[str, list[float]]


@dataclass
class EvaluationMetrics:
    """The metrics of an evaluation: [value, low, high, tasks] by measure and k.

    `failed` counts samples that never came, `unjudged` those without a reward.
    """

    tasks: int
    closed: int
    dropped: int
    samples: int
    judged: int
    unjudged: int
    failed: int
    metrics: dict[str, dict[str, list]]
    domains: dict[str, dict] = field(default_factory=dict)
    scales: dict[str, list[dict]] = field(default_factory=dict)
    judges: dict[str, list] = field(default_factory=dict)
    hardest: list[dict] = field(default_factory=list)

    def at(self, measure: str, k: int) -> Mean:
        """Return the metric; an empty Mean where the measure or the k does not exist."""
        row = self.metrics.get(measure, {}).get(str(k))
        return Mean(*row) if row else Mean(None, None, None, 0)


@dataclass(frozen=True)
class ByTask:
    """The metrics of each task, None where it has none.

    `metrics[measure][k]` are in the order of `tasks` (ids).
    """

    tasks: list[int]
    metrics: dict[str, dict[str, list[float | None]]]


def keep_results() -> int:
    """Summarise the complete evaluations, one by one; return how many.

    A result is stored once even if two processes try. An evaluation that cannot be summarised is
    logged, and does not stop the others.
    """
    unsummarised = Run.objects.filter(
        is_evaluation=True, state=Run.State.COMPLETED, result=None
    ).order_by("pk")
    return sum(_keep_result(run) for run in unsummarised.select_related("taskset"))


def _keep_result(run: Run) -> bool:
    try:
        with transaction.atomic():
            EvaluationResult.objects.bulk_create([_result(run)], ignore_conflicts=True)
    except (OperationalError, InterfaceError):
        raise
    # Any error: it must stop neither the other evaluations nor the rest of the sweep.
    except Exception:
        log.exception("evaluation_summary_failed", run=run)
        return False
    return True


def _result(run: Run) -> EvaluationResult:
    tasks = _load_tasks(run)
    table = _table(run, tasks)
    by_task = ByTask(
        [task.task for task in tasks], {name: _rounded(of_k) for name, of_k in table.items()}
    )
    return EvaluationResult(
        run=run, metrics=asdict(_build_metrics(run, tasks, table)), by_task=asdict(by_task)
    )


def _rounded(of_k: dict[int, list[float | None]]) -> dict[str, list[float | None]]:
    return {
        str(k): [value if value is None else round(value, DIGITS) for value in values]
        for k, values in of_k.items()
    }


def summed_up(run: Run) -> EvaluationMetrics:
    """Compute the metrics from the rows of the closed groups."""
    tasks = _load_tasks(run)
    return _build_metrics(run, tasks, _table(run, tasks))


def _table(run: Run, tasks: Sequence[EvaluatedTask]) -> Table:
    tried = [task.tried for task in tasks]
    measures = [name for name in MEASURES if name != "maj" or are_comparable(tried)]
    return build_pass_table(
        tried, run.settings.group_size, _read_correct_threshold(run.settings), measures
    )


def _read_correct_threshold(plan: RunConfig) -> float:
    """Return from which reward an answer counts as correct, by the run's `evaluation` section."""
    assert plan.evaluation is not None  # the run is an evaluation
    return plan.evaluation.correct_threshold


def _build_metrics(run: Run, tasks: Sequence[EvaluatedTask], table: Table) -> EvaluationMetrics:
    plan = run.settings
    tried = [task.tried for task in tasks]
    closed = run.groups.filter(state__in=Group.CLOSED).count()
    finished = sum(len(of_task.values) for of_task in tried)
    judged = sum(len(of_task.judged) for of_task in tried)
    samples = closed * plan.group_size
    return EvaluationMetrics(
        tasks=run.tasks_asked,
        closed=closed,
        dropped=run.groups_dropped,
        samples=samples,
        judged=judged,
        unjudged=finished - judged,
        failed=samples - finished,
        metrics=compute_means(table),
        domains=_domains(tasks, table),
        scales=by_scale(run, [task.task for task in tasks], table),
        judges=_judges(tasks),
        hardest=_hardest(tasks, _read_correct_threshold(plan)),
    )


def _load_tasks(run: Run) -> list[EvaluatedTask]:
    """Return the closed tasks in order, each with its finished samples.

    Samples of a dropped group count as not finished.
    """
    rows = Rollout.objects.filter(
        run=run, group__state=Group.State.MEASURED, state=Rollout.State.FINISHED
    )
    rows = rows.exclude(origin=Rollout.Origin.SYNTHETIC).order_by(
        "group__draw_index", "sample_index"
    )
    with_endings = rows.annotate(
        ending=Right("text", ENDING), judged_by=F(f"group__task__meta__{KEY}")
    )
    fields = (
        "pk",
        "group_id",
        "group__task__index",
        "group__task_id",
        "group__task__domain",
        "judged_by",
        "ending",
    )
    by_group = defaultdict(list)
    plan = run.settings
    all_rows = list(with_endings.values_list(*fields))
    for start in range(0, len(all_rows), AT_ONCE):
        batch = all_rows[start : start + AT_ONCE]
        judgements = load_judgements([row[0] for row in batch])
        for pk, group, index, task, domain, judged_by, ending in batch:
            kind = find_judged_kind(domain, judged_by)
            reward = combined(judgements[pk], plan, kind)
            value = None if reward is None else success(reward, full_reward(plan, kind))
            by_group[group, index, task, domain].append((value, comparable(ending), judgements[pk]))
    return [EvaluatedTask(*key, *_samples_of_task(samples)) for key, samples in by_group.items()]


def _samples_of_task(samples: Sequence[tuple]) -> tuple[TaskSamples, dict[str, list[float]]]:
    judges = defaultdict(list)
    for _, _, task_judgements in samples:
        for judgement in task_judgements:
            if judgement.value is not None:
                judges[_judge(judgement)].append(judgement.value)
    return TaskSamples(
        tuple(value for value, *_ in samples), tuple(answer for _, answer, _ in samples)
    ), dict(judges)


def _judge(judgement: Judgement) -> str:
    """Return the name of the judge; simulated ratings are not shown as people's."""
    if judgement.is_simulated:
        return "simulated"
    return "people" if judgement.is_human else judgement.scorer


def comparable(text: str) -> str:
    """Return the final answer in normal form, without case, spaces and final punctuation.

    So equal answers of two replies compare equal; "" without an answer.
    """
    final = final_answer(text)
    if final is None or len(final.text) > MAX_ANSWER_LENGTH:
        return ""
    return re.sub(r"[\s$,]+", "", final.text).rstrip(".!?").casefold()


def _domains(tasks: Sequence[EvaluatedTask], table: Table) -> dict[str, dict]:
    names = sorted({task.domain for task in tasks})
    if len(names) < 2:
        return {}
    return {
        name: compute_means(table, [task.domain == name for task in tasks].__getitem__)
        for name in names
    }


def _taskset(run: Run) -> Taskset:
    """Return the taskset, of which an evaluation has one."""
    assert run.taskset is not None
    return run.taskset


def by_scale(run: Run, tasks: Sequence[int], table: Table) -> dict[str, list[dict]]:
    """Return metrics by quarters of each of the taskset's newest scales, lowest numbers first.

    All quarters hold equally many of these tasks (ids). `table` is in the order of the tasks.
    """
    bands_by_scale: dict[str, list[dict]] = {}
    place = {task: n for n, task in enumerate(tasks)}
    for scale in (
        _taskset(run).scales.filter(ready=True).exclude(source=DOMAIN).order_by("-pk")[:SCALES]
    ):
        rows = (
            scale.difficulties.filter(task__in=tasks).order_by("place").values_list("task", "value")
        )
        bands_by_scale[scale.name] = [
            _band(place, table, quarter) for quarter in _quarters(list(rows))
        ]
    return {name: bands for name, bands in bands_by_scale.items() if bands}


def _band(place: Mapping[int, int], table: Table, rows: Sequence[tuple[int, float]]) -> dict:
    places = {place[task] for task, _ in rows}
    return {
        "from": rows[0][1],
        "to": rows[-1][1],
        "metrics": compute_means(table, places.__contains__),
    }


def why_not_by_scale(run: Run, tasks: int) -> str:
    """Return why there are no metrics by difficulty; empty if there are."""
    scales = _taskset(run).scales.exclude(source=DOMAIN)
    if not scales.exists():
        return f"{_taskset(run).slug} has no difficulty scale"
    if waiting := scales.filter(ready=False).order_by("-pk").values_list("name", flat=True).first():
        return f"the scale {waiting} is not ready"
    return (
        f"only {tasks} tasks have results; quarters of a scale need {2 * BANDS}"
        if tasks < 2 * BANDS
        else ""
    )


def _quarters(rows: list) -> Iterable[list]:
    if len(rows) < 2 * BANDS:
        return []
    ends = [round(part * len(rows) / BANDS) for part in range(BANDS + 1)]
    return [rows[start:end] for start, end in pairwise(ends)]


def _judges(tasks: Sequence[EvaluatedTask]) -> dict[str, list]:
    """Return each judge's own mean value over tasks, not weighted."""
    names = sorted({name for task in tasks for name in task.judges})
    means = {
        name: [sum(v) / len(v) for task in tasks if (v := task.judges.get(name))] for name in names
    }
    return {name: [sum(values) / len(values), len(values)] for name, values in means.items()}


def _hardest(tasks: Sequence[EvaluatedTask], correct_threshold: float) -> list[dict]:
    judged = [task for task in tasks if task.tried.judged]
    hardest = [
        {
            "group": task.group,
            "index": task.index,
            "judged": len(task.tried.judged),
            "right": sum(is_right(value, correct_threshold) for value in task.tried.judged),
            "mean": mean_with_interval(task.tried.judged).value,
        }
        for task in judged
    ]
    return sorted(hardest, key=lambda task: (task["mean"], task["index"]))[:HARDEST]
