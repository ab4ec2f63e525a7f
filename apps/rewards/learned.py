"""Scorers that a run has learned: `model:RUN` or `model:RUN@VERSION`.

Without a version, it is the last one of a completed reward model run.

What they say is the logistic of the model's score, so that it lies between 0 and 1 as other rewards
do; the score itself is in the details. Which weights a name means never changes while it can be
used.
"""

from dataclasses import dataclass
from pathlib import Path

from apps.runs.models import Run, WeightVersion

PREFIX = "model:"


@dataclass(frozen=True)
class RewardModel:
    """Location of a learned scorer's weights."""

    run: str
    version: int
    folder: Path


def is_learned(scorer: str) -> bool:
    return scorer.startswith(PREFIX)


def find_reward_model(project_id: int, scorer: str) -> RewardModel:
    """Return the reward model of that name in the project.

    Raises LookupError saying what is missing and what there is.
    """
    slug, _, number = scorer.removeprefix(PREFIX).partition("@")
    run = _runs(project_id).filter(slug=slug).first()
    if run is None:
        model_names = (
            ", ".join(PREFIX + slug for slug in _runs(project_id).values_list("slug", flat=True))
            or "none yet"
        )
        raise LookupError(f"no reward model run {slug!r} in this project; there are: {model_names}")
    if number and not number.isdigit():
        raise LookupError(f"{scorer!r}: a weight version number must follow @")
    if not number and run.state != Run.State.COMPLETED:
        raise LookupError(
            f"run {slug} has not completed; wait, or choose a weight version: "
            f"{PREFIX}{slug}@{run.published_version}"
        )
    version = run.weight_versions.filter(
        version=int(number) if number else run.published_version
    ).first()
    if version is None or version.version == 0 or version.state != WeightVersion.State.PUBLISHED:
        raise LookupError(
            f"{scorer!r}: run {slug} no longer has this version; the latest is "
            f"{run.published_version}"
        )
    return RewardModel(slug, version.version, Path(version.folder))


def _runs(project_id: int):
    return Run.objects.filter(project=project_id, config__algorithm__name="reward_model").order_by(
        "slug"
    )
