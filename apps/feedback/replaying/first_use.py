"""Where what some people said first reached the weights, and which version to begin again from."""

from dataclasses import dataclass
from pathlib import Path

from django.db.models import Exists, Max, Min, OuterRef, Q

from apps.buffer.models import StepItem
from apps.feedback.models import ExpertAnswer
from apps.feedback.replaying.leaving_out import LeftOut
from apps.rewards.combining import RATER_MODEL
from apps.rewards.models import Rescoring, Reward
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, WeightVersion


@dataclass(frozen=True)
class Beginning:
    """`version` is what is begun with. `before`: the newest version that knows nothing of what is left out, kept or not."""

    version: WeightVersion
    before: WeightVersion
    first_use: int | None

    @property
    def is_earlier(self) -> bool:
        """Whether the version before the first use has lost its folder, so that an older one has to do."""
        return self.version.pk != self.before.pk


def beginning_of(run: Run, left_out: LeftOut, rescoring: Rescoring | None = None) -> Beginning:
    """Nobody and nothing left out begins with version 0: then all of the run is made again.

    With a new set of rewards it begins before the first update that took a group of it.
    """
    firsts = (first_use(left_out), ends_of(rescoring)[0] if rescoring else None)
    first = min((number for number in firsts if number is not None), default=None)
    versions = run.weight_versions.exclude(state=WeightVersion.State.REFUSED)
    older = versions.filter(version=0) if first is None else versions.filter(Q(step__lt=first) | Q(version=0))
    older = list(older.order_by("-version"))
    kept = next(version for version in older if version.version == 0 or _is_kept(version))
    return Beginning(kept, older[0], first)


def first_use(left_out: LeftOut) -> int | None:
    """The first committed update that took something of theirs: rated rollouts, answers of theirs, a model that knew them."""
    items = StepItem.objects.filter(step__run=left_out.run, step__state=TrainStep.State.COMMITTED)
    found = [
        items.filter(experience__group__in=_groups(left_out)).aggregate(first=Min("step__number"))["first"],
        items.filter(experience__rollout__in=_answers(left_out)).aggregate(first=Min("step__number"))["first"],
    ]
    if left_out.tainted_models:
        learned = Reward.objects.filter(
            rollout=OuterRef("experience__rollout"), scorer=RATER_MODEL,
            details__rater_model__in=list(left_out.tainted_models),
        )  # fmt: skip
        found.append(items.filter(Exists(learned)).order_by("step__number").values_list("step__number", flat=True).first())
    return min((number for number in found if number is not None), default=None)


def ends_of(rescoring: Rescoring) -> tuple[int | None, int | None]:
    """The first and the last committed update that took a group of this set of rewards; None, None where none did."""
    items = StepItem.objects.filter(step__run=rescoring.run_id, step__state=TrainStep.State.COMMITTED)
    theirs = items.filter(experience__group__in=rescoring.items.values("group"))
    found = theirs.aggregate(first=Min("step__number"), last=Max("step__number"))
    return found["first"], found["last"]


def _groups(left_out: LeftOut) -> set[int]:
    """Groups of which they judged or steered something, or whose task is left out."""
    said = left_out.ratings
    found = set(said.exclude(item=None).values_list("item__group", flat=True))
    found |= set(said.exclude(rollout=None).values_list("rollout__group", flat=True))
    found |= set(left_out.interventions.values_list("rollout__group", flat=True))
    return found | set(Group.objects.filter(run=left_out.run, task__in=left_out.tasks).values_list("pk", flat=True))


def _answers(left_out: LeftOut) -> set[int]:
    of_theirs = ExpertAnswer.objects.filter(run=left_out.run, demonstration__in=left_out.demonstrations.values("pk"))
    return set(of_theirs.values_list("rollout", flat=True))


def _is_kept(version: WeightVersion) -> bool:
    return version.state == WeightVersion.State.PUBLISHED and Path(version.folder).is_dir()
