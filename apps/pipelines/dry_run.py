"""A dry run of a pipeline on tasks, the newest closed groups and the newest step of a run.

Nothing is written.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apps.buffer.credit import Credit
from apps.buffer.models import Experience
from apps.pipelines.applying import OperatorFailed, OperatorResult, RemovedSample, stands_at
from apps.pipelines.asking import answer_operators
from apps.pipelines.batching import treated
from apps.pipelines.deciding import Case, Decision, decide_groups
from apps.pipelines.operators.contract import BATCH, TASKS, Made, Sample
from apps.pipelines.operators.contract import GROUPS as GROUPS_STAGE
from apps.pipelines.refining import load_cases
from apps.pipelines.tasks import STORED, sift_tasks
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task, Taskset

GROUPS = 64
TASKS_TRIED = 256  # tasks that are tried
SHOWN = 3  # samples of each operator
REASONS = 5


@dataclass(frozen=True)
class Line:
    """The effect of one operator at its stage.

    `cuts` and `shaped` are examples of what it removed or changed, the latter as (before, after).
    `made` is the number of rows that it would add, `rows` some of them.
    """

    place: int
    operator: str
    given: int
    kept: int
    silenced: int
    reasons: list[tuple[str, int]]
    cuts: list[RemovedSample]
    shaped: list[tuple[Sample, Sample]]
    made: int
    rows: list[Made]
    stage: str = GROUPS_STAGE


@dataclass
class Part:
    """The effect on tasks, or on rows of step `step`: how many remain, or why it failed."""

    looked_at: int
    left: int = 0
    lines: list[Line] = field(default_factory=list)
    broken: str = ""
    step: int = 0


@dataclass
class DryRun:
    """The result of a dry run.

    `before` and `after` are (groups, experiences) without any operator and with these. `failed`
    says why operators failed. `tasks` and `batch` are None where no operator works at that stage,
    or where there is nothing to try it on.
    """

    groups: int
    before: tuple[int, int]
    after: tuple[int, int]
    lines: list[Line] = field(default_factory=list)
    dropped: list[tuple[str, int]] = field(default_factory=list)
    failed: list[tuple[str, int]] = field(default_factory=list)
    tasks: Part | None = None
    batch: Part | None = None

    @property
    def all_lines(self) -> list[Line]:
        """Return the lines of all stages, in the pipeline's order."""
        beside = [line for part in (self.tasks, self.batch) if part for line in part.lines]
        return sorted([*self.lines, *beside], key=lambda line: line.place)


def dry_run(run: Run, pipeline: Sequence[OperatorChoice], limit: int = GROUPS) -> DryRun:
    """Try this pipeline on the run's newest judged and closed groups, at most `limit` of them."""
    closed = run.groups.filter(
        state__in=(Group.State.ADMITTED, Group.State.DROPPED),
        judged_at__isnull=False,
        draw_index__isnull=False,
    )
    if run.settings.algorithm.advantage.name == "step_wise_grpo":  # counts turns in the arrays
        closed = closed.exclude(rollouts__arrays_released_at__isnull=False)
    groups = list(
        closed.exclude(answer_only=True)
        .order_by("-draw_index")
        .select_related("task", "run")[:limit]
    )
    cases = _at_decision_time(run, load_cases(groups))
    plan = run.settings
    without = decide_groups(plan.model_copy(update={"pipeline": ()}), cases)
    decisions = decide_groups(
        plan.model_copy(update={"pipeline": tuple(pipeline)}), answer_operators(pipeline, cases)
    )
    reasons = Counter(decision.dropped for decision in decisions if decision.dropped)
    failures = Counter(decision.failed for decision in decisions if decision.failed)
    summaries = (_lines(decisions), reasons.most_common(REASONS), failures.most_common(REASONS))
    parts = (_of_tasks(run, pipeline), _of_batch(run, pipeline))
    return DryRun(
        len(groups), _count_admitted(without), _count_admitted(decisions), *summaries, *parts
    )


def _of_tasks(run: Run, pipeline: Sequence[OperatorChoice]) -> Part | None:
    """Try the task operators on tasks spread over the run's tasksets."""
    if not stands_at(pipeline, TASKS):
        return None
    tasks = [
        task
        for taskset in run.tasksets
        for task in _spread_tasks(taskset, TASKS_TRIED // len(run.tasksets))
    ]
    try:
        sifted = sift_tasks(pipeline, run.project_id, [(task.pk, task) for task in tasks], STORED)
    except OperatorFailed as failure:
        return Part(len(tasks), broken=str(failure))
    return Part(
        len(tasks),
        len(tasks) - len(sifted.left_out),
        [_line(result.place, [result], [], TASKS) for result in sifted.passes],
    )


def _spread_tasks(taskset: Taskset, limit: int) -> list[Task]:
    indexes = range(0, taskset.size, max(1, -(-taskset.size // limit)))
    return list(taskset.tasks.filter(index__in=indexes).order_by("index"))


def _of_batch(run: Run, pipeline: Sequence[OperatorChoice]) -> Part | None:
    """Try the batch operators on the newest step, with its advantages from before operators.

    Advantages that depend on the whole step are the recorded ones.
    """
    step = run.steps.order_by("-number").first()
    if step is None or not stands_at(pipeline, BATCH):
        return None
    usual = step.items.filter(experience__kind=Experience.Kind.USUAL).order_by("position")
    items = list(usual.select_related("experience__rollout", "experience__group__task"))
    over_batch = run.settings.algorithm.advantage.over_batch
    credits = {
        item.experience_id: Credit.unpack(item.advantage, item.token_advantages)
        for item in items
        if over_batch and item.advantage is not None
    }
    try:
        batch = treated(
            run.settings, pipeline, [item.experience for item in items], step.version, credits
        )
    except OperatorFailed as failure:
        return Part(len(items), broken=str(failure), step=step.number)
    lines = [_line(result.place, [result], [], BATCH) for result in batch.passes]
    return Part(len(items), len(items) - len(batch.treated.left_out), lines, step=step.number)


def _at_decision_time(run: Run, cases: list[Case]) -> list[Case]:
    """Return the cases with the version published when each was closed, to restore ages."""
    published = list(
        run.weight_versions.filter(published_at__isnull=False)
        .order_by("version")
        .values_list("published_at", flat=True)
    )
    return [
        Case(
            case.group,
            case.rollouts,
            case.judgements,
            _version_at(published, case.group.closed_at),
        )
        for case in cases
    ]


def _version_at(published: Sequence[datetime | None], closed_at: datetime | None) -> int:
    """Return the version that was the newest when a group was closed."""
    assert closed_at is not None  # admitted and dropped groups are closed
    times = [at for at in published if at is not None]
    return max(0, bisect_right(times, closed_at) - 1)


def _count_admitted(decisions: Sequence[Decision]) -> tuple[int, int]:
    admitted = [decision for decision in decisions if not decision.dropped and not decision.failed]
    return len(admitted), sum(len(decision.learned) for decision in admitted)


def _lines(decisions: Sequence[Decision]) -> list[Line]:
    passes: defaultdict[int, list[OperatorResult]] = defaultdict(list)
    rows_by_place: defaultdict[int, list[Made]] = defaultdict(list)
    for decision in decisions:
        for result in decision.passes:
            passes[result.place].append(result)
        for result, row in decision.made:
            rows_by_place[result.place].append(row)
    return [
        _line(place, results, rows_by_place[place]) for place, results in sorted(passes.items())
    ]


def _line(
    place: int, passes: Sequence[OperatorResult], rows: Sequence[Made], stage: str = GROUPS_STAGE
) -> Line:
    cuts = [cut for result in passes for cut in result.cuts]
    before = {sample.rollout: sample for result in passes for sample in result.given}
    after = [sample for result in passes for sample in result.kept]
    shaped = [
        (before[sample.rollout], sample)
        for sample in after
        if _changeable_values(before[sample.rollout]) != _changeable_values(sample)
    ]
    return Line(
        place,
        passes[0].operator,
        len(before),
        len(after),
        sum(len(result.silenced) for result in passes),
        Counter(cut.reason for cut in cuts).most_common(REASONS),
        cuts[:SHOWN],
        shaped[:SHOWN],
        len(rows),
        list(rows[:SHOWN]),
        stage,
    )


def _changeable_values(sample: Sample) -> tuple[float, float | None]:
    """Return the values of a sample that operators may change."""
    return sample.reward, sample.advantage
