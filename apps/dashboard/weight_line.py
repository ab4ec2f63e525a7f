"""The line of a run's weight versions, and one of them: where it comes from, how far it moved, how it reached the engines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Avg, Count, Q

from apps.accounts.public_text import public_text
from apps.buffer.models import StepItem, StepLesson
from apps.dashboard.trends import Drawing, drawing_of
from apps.feedback.tracing import shaped_by
from apps.policies.damage import DamagedWeights
from apps.policies.manifest import Manifest, read_manifest
from apps.policies.registering import parameter_count
from apps.runs.models import Acknowledgement, Metric, TrainStep, WeightVersion
from apps.tasksets.models import Task

TASKS_SHOWN, MOST_TASKS = 12, 500


@dataclass(frozen=True)
class Row:
    """A version of the line. `reward`: mean over the updates that were planned while it was the newest; None: there were none."""

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
        """Milliseconds of the engine that took longest to load it."""
        return max((word.milliseconds for word in self.words), default=None)

    @property
    def is_mixed_up(self) -> bool:
        """Whether an engine says it serves other bytes."""
        return any(word.fingerprint != self.version.fingerprint for word in self.words)


def line_of(versions: Sequence[WeightVersion]) -> list[Row]:
    """Rows for these versions of one run, `acknowledgements` prefetched; two queries whatever their number."""
    rewards = _rewards(versions)
    return [Row(one, list(one.acknowledgements.all()), rewards.get(one.version)) for one in versions]


def _rewards(versions: Sequence[WeightVersion]) -> dict[int, float]:
    """Mean reward by version, of the updates planned while it was the trainer's newest."""
    if not versions:
        return {}
    run = versions[0].run_id
    steps = TrainStep.objects.filter(run=run, version__in=[one.version for one in versions], state=TrainStep.State.COMMITTED)
    by_step = dict(steps.order_by().values_list("number", "version"))
    values = Metric.objects.filter(run=run, name="reward_mean", step__in=list(by_step)).values_list("step", "value")
    sums: dict[int, list[float]] = {}
    for step, value in values:
        sums.setdefault(by_step[step], []).append(value)
    return {version: sum(values) / len(values) for version, values in sums.items()}


def drawings_of(rows: Sequence[Row]) -> list[tuple[str, str, Drawing]]:
    """(title, explanation, curve over the updates) of what can be drawn of these versions, oldest first."""
    inorder = sorted(rows, key=lambda row: row.version.version)
    moved = [(row.version.step, row.moved) for row in inorder if row.moved is not None]
    gaps = [(row.version.step, row.probe_gap) for row in inorder if row.probe_gap is not None]
    drawn = (
        ("norm change", "L2 norm of the difference to the parent, over the parent's. A jump of many times is a bad update.", moved),
        ("probe gap, nats", "Largest mean difference of an engine's and the trainer's logprobs on the probe.", gaps),
    )
    drawn = [one for one in drawn if any(value for _, value in one[2])]  # a line along the ground says nothing
    found = [(title, why, drawing_of({title: points}, is_share=False)) for title, why, points in drawn]
    return [one for one in found if one[2] is not None]


# -- one version ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A stage of the way to the engines: what happened, when, and how many milliseconds after the stage before."""

    words: str
    why: str
    at: datetime | None
    milliseconds: float | None


def way_of(version: WeightVersion) -> list[Stage]:
    """Written, verified, published: of the trainer's side. Engines answer with acknowledgements."""
    told = (
        ("written", "The trainer has sealed the folder and committed its update.", version.staged_at),
        ("verified", "Every byte was read back from disk and compared with the manifest.", version.verified_at),
        ("published", "Offered to the engines; they look for it by themselves.", version.published_at),
    )
    found, before = [], None
    for words, why, at in told:
        found.append(Stage(words, why, at, _since(before, at)))
        before = at or before
    return found


def engines_of(version: WeightVersion) -> list[tuple[Acknowledgement, float | None]]:
    """Every engine's word, with the milliseconds from publication to it, first come first.

    None of an engine that was not there yet: it loaded the version when it came.
    """
    words = version.acknowledgements.select_related("worker").order_by("at", "pk")
    return [(word, None if _is_younger(word, version) else _since(version.published_at, word.at)) for word in words]


def _is_younger(word: Acknowledgement, version: WeightVersion) -> bool:
    return bool(version.published_at) and word.worker.started_at > version.published_at


def _since(before: datetime | None, at: datetime | None) -> float | None:
    return max(0.0, (at - before).total_seconds() * 1000) if before and at else None


@dataclass(frozen=True)
class Content:
    """What the folder holds, by its manifest. `kinds`: (dtype, tensors of it); `numbers`: stored in all tensors."""

    manifest: Manifest
    kinds: list[tuple[str, int]]
    numbers: int

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.manifest.files.values())


def content_of(version: WeightVersion) -> Content | str:
    """Or the sentence that says why nothing can be told."""
    if version.state == WeightVersion.State.RETIRED:
        return (
            "Its folder was retired: newer versions took its place. Its manifest, with what its files and tensors were, went with "
            "it; its fingerprint, its trace and its figures stay."
        )
    try:
        manifest = read_manifest(version.folder)
    except (DamagedWeights, OSError) as error:
        return f"Its folder cannot be read here: {public_text(error, {version.folder: version.folder.name})}."
    kinds = Counter(spec.dtype for spec in manifest.tensors.values())
    return Content(manifest, kinds.most_common(), parameter_count(manifest))


@dataclass(frozen=True)
class Origin:
    """What a version was made of, behind its parent: updates, with their rollouts and lessons, tasks, and what people said.

    `ratings` are those that counted when their groups were judged, in whatever form. `models`: rater models whose rewards
    were used, by number with how many; `shown_by`: people whose answers were imitated, with how many ("": imported ones).
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


def origin_of(version: WeightVersion) -> Origin | None:
    """None of the base, and of one that came of no update."""
    since = version.parent.step if version.parent else 0
    if version.version == 0 or version.step <= since:
        return None
    steps = TrainStep.objects.filter(run=version.run_id, number__gt=since, number__lte=version.step)
    shapings = shaped_by(steps.filter(state=TrainStep.State.COMMITTED))
    ratings = {rating.pk: rating.rater for shaping in shapings for rating in shaping.ratings}
    simulated = [rater for rater in ratings.values() if rater.is_simulated]
    people = {rater.pk for rater in ratings.values() if not rater.is_simulated}
    models: Counter[int] = sum((Counter(shaping.models) for shaping in shapings), Counter())
    answers = {answer.pk: answer for shaping in shapings for answer in shaping.answers}
    authors = Counter(answer.author.username if answer.author else "" for answer in answers.values())
    groups = StepItem.objects.filter(step__in=steps).values("experience__group__task")
    tasks = Task.objects.filter(pk__in=groups).select_related("taskset__project").order_by("taskset", "index")
    return Origin(
        since + 1, version.step, sum(shaping.rollouts for shaping in shapings), StepLesson.objects.filter(step__in=steps).count(),
        list(tasks[:MOST_TASKS]), tasks.count(), len(ratings), len(simulated), len(people),
        dict(sorted(models.items())),
        dict(authors.most_common()),
    )  # fmt: skip


def reward_of(version: WeightVersion) -> tuple[float, int] | None:
    """Mean reward of the updates planned while it was the newest, and how many."""
    steps = TrainStep.objects.filter(run=version.run_id, version=version.version, state=TrainStep.State.COMMITTED)
    metrics = Metric.objects.filter(run=version.run_id, name="reward_mean", step__in=steps.values("number"))
    found = metrics.aggregate(mean=Avg("value"), n=Count("pk", filter=Q(value__isnull=False)))
    return (found["mean"], found["n"]) if found["n"] else None


def bars_of(movement: dict | None) -> list[tuple[str, float, float]]:
    """(group of layers, relative change, share of the largest), in the model's order."""
    groups = movement["groups"] if movement else []
    most = max((value for _, value in groups), default=0.0)
    return [(group, value, value / most if most else 0.0) for group, value in groups]
