"""Find the first step that used excluded data, and the version to begin a replay from."""

from dataclasses import dataclass
from pathlib import Path

from django.db.models import Exists, Max, Min, OuterRef, Q

from apps.buffer.models import StepItem
from apps.feedback.models import ExpertAnswer
from apps.lineage.replaying.leaving_out import LeftOut
from apps.rewards.combining import RATER_MODEL
from apps.rewards.models import Rescoring, Reward
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, WeightVersion


@dataclass(frozen=True)
class Beginning:
    """The version to begin with.

    `before` is the newest version without any of the excluded data, whether its folder is kept or
    not.
    """

    version: WeightVersion
    before: WeightVersion
    first_use: int | None

    @property
    def is_earlier(self) -> bool:
        """Tell whether an older version is used because the right one has lost its folder."""
        return self.version.pk != self.before.pk


def find_beginning(run: Run, left_out: LeftOut, rescoring: Rescoring | None = None) -> Beginning:
    """Return the version from which a replay begins.

    Without exclusions it is version 0, so that the whole run is repeated. With a new set of rewards
    it is the version before the first step that took one of its groups.
    """
    firsts = (first_use(left_out), find_first_and_last_use(rescoring)[0] if rescoring else None)
    first = min((number for number in firsts if number is not None), default=None)
    versions = run.weight_versions.exclude(state=WeightVersion.State.REFUSED)
    older = (
        versions.filter(version=0)
        if first is None
        else versions.filter(Q(step__lt=first) | Q(version=0))
    )
    newest_first = list(older.order_by("-version"))
    version = next(
        candidate for candidate in newest_first if candidate.version == 0 or _is_kept(candidate)
    )
    return Beginning(version, newest_first[0], first)


def first_use(left_out: LeftOut) -> int | None:
    """Return the first committed step that used excluded data.

    Excluded data are a rated rollout, an answer of an excluded person, and a model that had learned
    from them.
    """
    items = StepItem.objects.filter(step__run=left_out.run, step__state=TrainStep.State.COMMITTED)
    first_steps = [
        items.filter(experience__group__in=_groups(left_out)).aggregate(first=Min("step__number"))[
            "first"
        ],
        items.filter(experience__rollout__in=_answers(left_out)).aggregate(
            first=Min("step__number")
        )["first"],
    ]
    if left_out.tainted_models:
        learned = Reward.objects.filter(
            rollout=OuterRef("experience__rollout"),
            scorer=RATER_MODEL,
            details__rater_model__in=list(left_out.tainted_models),
        )
        first_steps.append(
            items.filter(Exists(learned))
            .order_by("step__number")
            .values_list("step__number", flat=True)
            .first()
        )
    return min((number for number in first_steps if number is not None), default=None)


def find_first_and_last_use(rescoring: Rescoring) -> tuple[int | None, int | None]:
    """Return the first and last committed steps with a group of this set of rewards.

    Returns (None, None) if there is no such step.
    """
    items = StepItem.objects.filter(
        step__run=rescoring.run_id, step__state=TrainStep.State.COMMITTED
    )
    rescored = items.filter(experience__group__in=rescoring.items.values("group"))
    steps = rescored.aggregate(first=Min("step__number"), last=Max("step__number"))
    return steps["first"], steps["last"]


def _groups(left_out: LeftOut) -> set[int]:
    """Return the groups in which excluded people rated or intervened, or whose task is excluded."""
    ratings = left_out.ratings
    groups = set(ratings.exclude(item=None).values_list("item__group", flat=True))
    groups |= set(ratings.exclude(rollout=None).values_list("rollout__group", flat=True))
    groups |= set(left_out.interventions.values_list("rollout__group", flat=True))
    return groups | set(
        Group.objects.filter(run=left_out.run, task__in=left_out.tasks).values_list("pk", flat=True)
    )


def _answers(left_out: LeftOut) -> set[int]:
    of_theirs = ExpertAnswer.objects.filter(
        run=left_out.run, demonstration__in=left_out.demonstrations.values("pk")
    )
    return set(of_theirs.values_list("rollout", flat=True))


def _is_kept(version: WeightVersion) -> bool:
    return version.state == WeightVersion.State.PUBLISHED and Path(version.folder).is_dir()
