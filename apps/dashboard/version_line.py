"""A run's weight versions in a line, and one version: its origin, movement, and distribution."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db.models import Avg, Count, Q

from apps.accounts.public_text import public_text
from apps.buffer.models import StepItem, StepLesson
from apps.dashboard.trends import Drawing, draw_series
from apps.lineage.tracing import trace_updates
from apps.policies.damage import DamagedWeights
from apps.policies.manifest import Manifest, read_manifest
from apps.policies.registering import parameter_count
from apps.runs.models import Acknowledgement, Metric, TrainStep, WeightVersion
from apps.tasksets.models import Task

TASKS_SHOWN = 12
MAX_TASKS = 500


@dataclass(frozen=True)
class Row:
    """A version of the line.

    `reward` is the mean over the steps planned while it was the newest; None without any.
    """

    version: WeightVersion
    words: Sequence[Acknowledgement]
    reward: float | None

    @property
    def moved(self) -> float | None:
        return self.version.movement["whole"] if self.version.movement else None

    @property
    def probe_gap(self) -> float | None:
        return max((word.probe_gap for word in self.words), default=None)

    @property
    def slowest(self) -> float | None:
        """Return the milliseconds of the engine that took longest to load it."""
        return max((word.milliseconds for word in self.words), default=None)

    @property
    def is_mixed_up(self) -> bool:
        """Tell whether an engine reports that it serves other bytes."""
        return any(word.fingerprint != self.version.fingerprint for word in self.words)


def build_version_rows(versions: Sequence[WeightVersion]) -> list[Row]:
    """Return rows for these versions of one run, `acknowledgements` prefetched; two queries."""
    rewards = _rewards(versions)
    return [
        Row(version, list(version.acknowledgements.all()), rewards.get(version.version))
        for version in versions
    ]


def _rewards(versions: Sequence[WeightVersion]) -> dict[int, float]:
    """Return the mean reward by version, of steps planned while it was the newest."""
    if not versions:
        return {}
    run = versions[0].run_id
    steps = TrainStep.objects.filter(
        run=run,
        version__in=[version.version for version in versions],
        state=TrainStep.State.COMMITTED,
    )
    by_step = dict(steps.order_by().values_list("number", "version"))
    values = Metric.objects.filter(run=run, name="reward_mean", step__in=list(by_step)).values_list(
        "step", "value"
    )
    sums: dict[int, list[float]] = {}
    for step, value in values:
        sums.setdefault(by_step[step], []).append(value)
    return {version: sum(values) / len(values) for version, values in sums.items()}


def draw_version_curves(rows: Sequence[Row]) -> list[tuple[str, str, Drawing]]:
    """Return (title, explanation, curve over steps) of these versions, oldest first."""
    inorder = sorted(rows, key=lambda row: row.version.version)
    moved = [(row.version.step, row.moved) for row in inorder if row.moved is not None]
    gaps = [(row.version.step, row.probe_gap) for row in inorder if row.probe_gap is not None]
    drawn = (
        (
            "norm change",
            (
                "L2 norm of the difference from the parent, relative to the parent's norm. A large"
                " jump points to a bad step."
            ),
            moved,
        ),
        (
            "parity gap, nats",
            "Largest mean logprob difference between an engine and the trainer.",
            gaps,
        ),
    )
    curves = []
    for title, why, points in drawn:
        if any(value for _, value in points):  # a constant zero line is not worth drawing
            drawing = draw_series({title: points}, is_share=False)
            if drawing is not None:
                curves.append((title, why, drawing))
    return curves


# -- one version


@dataclass(frozen=True)
class Stage:
    """A stage on the way to the engines; milliseconds are counted from the stage before."""

    words: str
    why: str
    at: datetime | None
    milliseconds: float | None


def list_publication_stages(version: WeightVersion) -> list[Stage]:
    """Return the trainer's stages: written, verified, published."""
    stages = (
        (
            "written",
            "The trainer has written the files and completed the step.",
            version.staged_at,
        ),
        (
            "verified",
            "All files were read back and compared with the manifest.",
            version.verified_at,
        ),
        (
            "published",
            "Available to the engines.",
            version.published_at,
        ),
    )
    publication_stages = []
    before = None
    for words, why, at in stages:
        publication_stages.append(Stage(words, why, at, _since(before, at)))
        before = at or before
    return publication_stages


def list_acknowledgements(version: WeightVersion) -> list[tuple[Acknowledgement, float | None]]:
    """Return the engines' acknowledgements with the milliseconds since publication.

    The first comes first; the time is None for an engine that started later and loaded the version
    then.
    """
    words = version.acknowledgements.select_related("worker").order_by("at", "pk")
    return [
        (word, None if _is_younger(word, version) else _since(version.published_at, word.at))
        for word in words
    ]


def _is_younger(word: Acknowledgement, version: WeightVersion) -> bool:
    published = version.published_at
    return published is not None and word.worker.started_at > published


def _since(before: datetime | None, at: datetime | None) -> float | None:
    return max(0.0, (at - before).total_seconds() * 1000) if before and at else None


@dataclass(frozen=True)
class Content:
    """The contents of the folder, by its manifest.

    `kinds` are (dtype, number of tensors); `numbers` is the count stored in all tensors.
    """

    manifest: Manifest
    kinds: list[tuple[str, int]]
    numbers: int

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.manifest.files.values())


def read_version_content(version: WeightVersion) -> Content | str:
    """Return the contents, or a sentence that says why they are unknown."""
    if version.state == WeightVersion.State.RETIRED:
        return (
            "The files and the manifest of this version were deleted when newer versions"
            " replaced it. Its fingerprint, trace and metrics are kept."
        )
    try:
        manifest = read_manifest(version.folder)
    except (DamagedWeights, OSError) as error:
        folder = Path(version.folder)
        reason = public_text(error, {folder: folder.name})
        return f"The files can't be read on this machine: {reason}."
    kinds = Counter(spec.dtype for spec in manifest.tensors.values())
    return Content(manifest, kinds.most_common(), parameter_count(manifest))


@dataclass(frozen=True)
class Origin:
    """Everything that a version was made from after its parent.

    `ratings` are those that counted when their groups were rated. `models` are rater models whose
    rewards were used, by number with counts; `shown_by` are people whose answers were imitated,
    with counts ("": imported ones).
    """

    since: int
    until: int
    rollouts: int
    lessons: int
    tasks: list[Task]
    task_count: int
    ratings: int
    simulated_ratings: int
    people: int
    models: dict[int, int]
    shown_by: dict[str, int]

    @property
    def people_ratings(self) -> int:
        return self.ratings - self.simulated_ratings

    @property
    def first(self) -> list[Task]:
        return self.tasks[:TASKS_SHOWN]

    @property
    def others(self) -> list[Task]:
        return self.tasks[TASKS_SHOWN:]


def find_version_origin(version: WeightVersion) -> Origin | None:
    """Return the origin; None for the base, and for a version without steps."""
    since = version.parent.step if version.parent else 0
    if version.version == 0 or version.step <= since:
        return None
    steps = TrainStep.objects.filter(run=version.run_id, number__gt=since, number__lte=version.step)
    shapings = trace_updates(steps.filter(state=TrainStep.State.COMMITTED))
    ratings = {rating.pk: rating.rater for shaping in shapings for rating in shaping.ratings}
    simulated = [rater for rater in ratings.values() if rater.is_simulated]
    people = {rater.pk for rater in ratings.values() if not rater.is_simulated}
    models: Counter[int] = sum((Counter(shaping.models) for shaping in shapings), Counter())
    answers = {answer.pk: answer for shaping in shapings for answer in shaping.answers}
    authors = Counter(
        answer.author.username if answer.author else "" for answer in answers.values()
    )
    groups = StepItem.objects.filter(step__in=steps).values("experience__group__task")
    tasks = (
        Task.objects.filter(pk__in=groups)
        .select_related("taskset__project")
        .order_by("taskset", "index")
    )
    return Origin(
        since + 1,
        version.step,
        sum(shaping.rollouts for shaping in shapings),
        StepLesson.objects.filter(step__in=steps).count(),
        list(tasks[:MAX_TASKS]),
        tasks.count(),
        len(ratings),
        len(simulated),
        len(people),
        dict(sorted(models.items())),
        dict(authors.most_common()),
    )


def mean_reward_while_newest(version: WeightVersion) -> tuple[float, int] | None:
    """Return the mean reward of steps planned while it was the newest, and their number."""
    steps = TrainStep.objects.filter(
        run=version.run_id, version=version.version, state=TrainStep.State.COMMITTED
    )
    metrics = Metric.objects.filter(
        run=version.run_id, name="reward_mean", step__in=steps.values("number")
    )
    summary = metrics.aggregate(mean=Avg("value"), n=Count("pk", filter=Q(value__isnull=False)))
    return (summary["mean"], summary["n"]) if summary["n"] else None


def build_movement_bars(movement: dict | None) -> list[tuple[str, float, float]]:
    """Return (group of layers, relative change, share of the largest), in the model's order."""
    groups = movement["groups"] if movement else []
    largest = max((value for _, value in groups), default=0.0)
    return [(group, value, value / largest if largest else 0.0) for group, value in groups]
