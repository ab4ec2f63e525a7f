"""Scheduling of head training by the refiner, and scoring with a trained head.

Loads torch only for runs that have a head.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from apps.feedback.rater_model import heads
from apps.policies.damage import DamagedWeights
from apps.runs.models import Run

if TYPE_CHECKING:
    from workers.reward_models import RewardModels

log = structlog.get_logger(__name__)
_training: dict[int, subprocess.Popen[bytes]] = {}
# By run, the number of decisions at the last training by this process; a failure would only be
# repeated.
_tried: dict[int, int] = {}


def train_where_due(runs: Iterable[Run]) -> None:
    """Start a training process for each run whose decisions call for one; do not wait for it."""
    for run in runs:
        section = run.settings.people.rater_model
        if section is None or section.kind != heads.KIND or _is_training(run.pk):
            continue
        decisions = heads.count_due_decisions(run, _tried.get(run.pk, 0))
        if decisions is not None:
            _tried[run.pk] = decisions
            log.info("rater_head_training_started", run=run, decisions=decisions)
            command = [
                sys.executable,
                "-m",
                "workers.rater_heads",
                str(run.pk),
                "--parent",
                str(os.getpid()),
            ]
            _training[run.pk] = subprocess.Popen(command)


def _is_training(run_id: int) -> bool:
    process = _training.get(run_id)
    if process is None:
        return False
    if process.poll() is None:
        return True
    del _training[run_id]
    if process.returncode:
        log.warning("rater_head_training_failed", run=run_id, exit_code=process.returncode)
    return False


def score_with_head(
    folder: Path, questions: Sequence[tuple[list[dict[str, Any]], str]]
) -> list[float | None]:
    """Return the head's score of each reply.

    None stands for weights that cannot be used; the ridge regression then works without them.
    """
    try:
        verdicts = _models().of(folder).judge(questions)
    except (OSError, DamagedWeights) as error:
        log.error("rater_head_unusable", folder=folder.name, error=str(error))
        return [None] * len(questions)
    return [verdict.details.get("score") for verdict in verdicts]


@cache
def _models() -> "RewardModels":
    from workers.reward_models import RewardModels  # loads torch

    return RewardModels()
