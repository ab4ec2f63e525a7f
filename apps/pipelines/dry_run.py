"""What a pipeline would do: a run's newest closed groups, decided again with it, and nothing written."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.pipelines.applying import Cut, Pass
from apps.pipelines.asking import answered
from apps.pipelines.deciding import Case, Decision, decide
from apps.pipelines.operators.contract import Made, Sample
from apps.pipelines.refining import cases_of
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice

GROUPS = 64  # that are looked at
SHOWN = 3  # samples of each operator
REASONS = 5


@dataclass(frozen=True)
class Line:
    """What one operator did. `cuts` and `shaped`: some of what it left out or changed, the latter as (before, after).

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


@dataclass
class DryRun:
    """`before` and `after`: groups and experiences without any operator, and with these. `failed`: why operators broke."""

    groups: int
    before: tuple[int, int]
    after: tuple[int, int]
    lines: list[Line] = field(default_factory=list)
    dropped: list[tuple[str, int]] = field(default_factory=list)
    failed: list[tuple[str, int]] = field(default_factory=list)


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
    return DryRun(len(groups), _left(without), _left(decisions), *told)


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


def _line(place: int, passes: Sequence[Pass], made: Sequence[Made]) -> Line:
    cuts = [cut for one in passes for cut in one.cuts]
    given = {sample.rollout: sample for one in passes for sample in one.given}
    kept = [sample for one in passes for sample in one.kept]
    shaped = [(given[sample.rollout], sample) for sample in kept if sample.reward != given[sample.rollout].reward]
    return Line(
        place, passes[0].operator, len(given), len(kept), sum(len(one.silenced) for one in passes),
        Counter(cut.reason for cut in cuts).most_common(REASONS), cuts[:SHOWN], shaped[:SHOWN],
        len(made), list(made[:SHOWN]),
    )  # fmt: skip
