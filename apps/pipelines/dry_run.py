"""What a pipeline would do to tasks, to the newest closed groups and to the newest update of a run; nothing is written."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.buffer.credit import Credit
from apps.buffer.models import Experience
from apps.pipelines.applying import Cut, OperatorFailed, Pass, stands_at
from apps.pipelines.asking import answered
from apps.pipelines.batching import treated
from apps.pipelines.deciding import Case, Decision, decide
from apps.pipelines.operators.contract import BATCH, TASKS, Made, Sample
from apps.pipelines.operators.contract import GROUPS as GROUPS_STAGE
from apps.pipelines.refining import cases_of
from apps.pipelines.tasks import STORED, sift_tasks
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task, Taskset

GROUPS, TASKS_TRIED = 64, 256  # that are looked at
SHOWN = 3  # samples of each operator
REASONS = 5


@dataclass(frozen=True)
class Line:
    """What one operator did at its stage. `cuts` and `shaped`: some of what it left out or changed, the latter as (before, after).

    `made`: how many rows it would add, `rows` some of them.
    """

    place: int
    operator: str
    given: int
    kept: int
    silenced: int
    reasons: list[tuple[str, int]]
    cuts: list[Cut]
    shaped: list[tuple[Sample, Sample]]
    made: int
    rows: list[Made]
    stage: str = GROUPS_STAGE


@dataclass
class Part:
    """Of so many tasks, or rows of an update (`step`), how many operators leave; or why one broke."""

    looked_at: int
    left: int = 0
    lines: list[Line] = field(default_factory=list)
    broken: str = ""
    step: int = 0


@dataclass
class DryRun:
    """`before` and `after`: groups and experiences without any operator, and with these. `failed`: why operators broke.

    `tasks`, `batch`: None where no operator stands there, or where there is none to try it on.
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
        """Of operators of every stage, in the pipeline's order."""
        beside = [line for part in (self.tasks, self.batch) if part for line in part.lines]
        return sorted([*self.lines, *beside], key=lambda line: line.place)


def dry_run(run: Run, pipeline: Sequence[OperatorChoice], most: int = GROUPS) -> DryRun:
    """What this pipeline makes of the newest groups of the run that were judged and closed, at most so many."""
    closed = run.groups.filter(
        state__in=(Group.State.ADMITTED, Group.State.DROPPED), judged_at__isnull=False, draw_index__isnull=False
    )
    if run.settings.algorithm.advantage.name == "step_wise_grpo":  # counts turns in the arrays
        closed = closed.exclude(rollouts__arrays_released_at__isnull=False)
    groups = list(closed.exclude(answer_only=True).order_by("-draw_index").select_related("task", "run")[:most])
    cases = _as_they_were(run, cases_of(groups))
    plan = run.settings
    without = decide(plan.model_copy(update={"pipeline": ()}), cases)
    decisions = decide(plan.model_copy(update={"pipeline": tuple(pipeline)}), answered(pipeline, cases))
    reasons = Counter(one.dropped for one in decisions if one.dropped)
    failures = Counter(one.failed for one in decisions if one.failed)
    told = (_lines(decisions), reasons.most_common(REASONS), failures.most_common(REASONS))
    parts = (_of_tasks(run, pipeline), _of_batch(run, pipeline))
    return DryRun(len(groups), _left(without), _left(decisions), *told, *parts)


def _of_tasks(run: Run, pipeline: Sequence[OperatorChoice]) -> Part | None:
    """On tasks from all over the run's sets."""
    if not stands_at(pipeline, TASKS):
        return None
    tasks = [task for taskset in run.tasksets for task in _spread(taskset, TASKS_TRIED // len(run.tasksets))]
    try:
        found = sift_tasks(pipeline, run.project_id, [(task.pk, task) for task in tasks], STORED)
    except OperatorFailed as failure:
        return Part(len(tasks), broken=str(failure))
    return Part(len(tasks), len(tasks) - len(found.left_out), [_line(one.place, [one], [], TASKS) for one in found.passes])


def _spread(taskset: Taskset, most: int) -> list[Task]:
    indexes = range(0, taskset.size, max(1, -(-taskset.size // most)))
    return list(taskset.tasks.filter(index__in=indexes).order_by("index"))


def _of_batch(run: Run, pipeline: Sequence[OperatorChoice]) -> Part | None:
    """On what the newest update took, with the advantages that it had before operators; where they depend on the whole update, as
    it is recorded.
    """
    step = run.steps.order_by("-number").first()
    if step is None or not stands_at(pipeline, BATCH):
        return None
    items = step.items.filter(experience__kind=Experience.Kind.USUAL).order_by("position")
    items = list(items.select_related("experience__rollout", "experience__group__task"))
    over_batch = run.settings.algorithm.advantage.over_batch
    credits = {
        one.experience_id: Credit.unpack(one.advantage, one.token_advantages)
        for one in items
        if over_batch and one.advantage is not None
    }
    try:
        found = treated(run.settings, pipeline, [one.experience for one in items], step.version, credits)
    except OperatorFailed as failure:
        return Part(len(items), broken=str(failure), step=step.number)
    lines = [_line(one.place, [one], [], BATCH) for one in found.passes]
    return Part(len(items), len(items) - len(found.treated.left_out), lines, step=step.number)


def _as_they_were(run: Run, cases: list[Case]) -> list[Case]:
    """With the version that was published when each was closed: ages are those of that moment."""
    published = list(
        run.weight_versions.filter(published_at__isnull=False).order_by("version").values_list("published_at", flat=True)
    )
    return [
        Case(case.group, case.rollouts, case.judgements, max(0, bisect_right(published, case.group.closed_at) - 1))
        for case in cases
    ]


def _left(decisions: Sequence[Decision]) -> tuple[int, int]:
    going = [one for one in decisions if not one.dropped and not one.failed]
    return len(going), sum(len(one.learned) for one in going)


def _lines(decisions: Sequence[Decision]) -> list[Line]:
    by_place: dict[int, list[Pass]] = {}
    for one in (one for decision in decisions for one in decision.passes):
        by_place.setdefault(one.place, []).append(one)
    made: dict[int, list[Made]] = {}
    for one, row in (added for decision in decisions for added in decision.made):
        made.setdefault(one.place, []).append(row)
    return [_line(place, passes, made.get(place, [])) for place, passes in sorted(by_place.items())]


def _line(place: int, passes: Sequence[Pass], made: Sequence[Made], stage: str = GROUPS_STAGE) -> Line:
    cuts = [cut for one in passes for cut in one.cuts]
    given = {sample.rollout: sample for one in passes for sample in one.given}
    kept = [sample for one in passes for sample in one.kept]
    shaped = [(given[sample.rollout], sample) for sample in kept if _shaped(given[sample.rollout]) != _shaped(sample)]
    return Line(
        place, passes[0].operator, len(given), len(kept), sum(len(one.silenced) for one in passes),
        Counter(cut.reason for cut in cuts).most_common(REASONS), cuts[:SHOWN], shaped[:SHOWN],
        len(made), list(made[:SHOWN]), stage,
    )  # fmt: skip


def _shaped(sample: Sample) -> tuple[float, float | None]:
    """What operators may change of it."""
    return sample.reward, sample.advantage
