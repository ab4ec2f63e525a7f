"""Training a scalar head on a run's decisions: which pairs it learns from, and what is stored of it.

Pairs are drawn from decisions with different numbers, of whatever prompts, and from comparisons. What is held out of it says how
a score is to be read and whether the head is any good.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import structlog
from django.conf import settings
from django.db import connection

from apps.feedback.models import RaterModel
from apps.feedback.rater_model import heads
from apps.feedback.rater_model.heads import Told
from apps.runs.models import Run
from workers.rater_heads.fitting import fit
from workers.reward_models import LoadedModel

log = structlog.get_logger(__name__)
APART = 0.2  # of a number: decisions nearer to each other make no pair
KEPT = 2  # newest heads whose weights stay
LOCK = 0x6865_6164  # one process per run trains a head


def train(run: Run) -> RaterModel | None:
    """A new head with its figures, stored; None when another process trains one or there is nothing to learn."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK, run.pk % 2**31])
        if not cursor.fetchone()[0]:
            return None
        try:
            return _train(run)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOCK, run.pk % 2**31])


def _train(run: Run) -> RaterModel | None:
    told = heads.decisions_of(run)
    learned = [one for one in told if not heads.is_held_out(one)]
    pool = pairs_of(learned)
    if not pool:
        return None
    folder = settings.WEIGHTS_ROOT / f"run-{run.pk}" / "heads" / str(told[-1].rating)
    if not folder.exists():
        fit(run, pool, folder)
    model = LoadedModel(folder)
    stored = heads.store(run, folder, told, dict(zip(*_scored(model, told), strict=True)))
    _forget_all_but(KEPT, folder.parent)
    log.info("head_trained", run=run, decisions=len(told), **stored.figures)
    return stored


def _forget_all_but(newest: int, heads_of_run: Path) -> None:
    """Older weights go; a refiner that has them loaded keeps them in memory until it asks the newest."""
    for old in sorted((f for f in heads_of_run.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))[:-newest]:
        shutil.rmtree(old, ignore_errors=True)


def _scored(model: LoadedModel, told: Sequence[Told]) -> tuple[list[heads.Reply], list[float | None]]:
    replies = list(dict.fromkeys(reply for one in told for reply in one.replies))
    verdicts = model.judge([(reply.messages, reply.text) for reply in replies])
    return replies, [verdict.details.get("score") for verdict in verdicts]


def pairs_of(told: Sequence[Told]) -> list[tuple[heads.Reply, heads.Reply]]:
    """(better, worse): all that comparisons say, and all two numbers that lie apart."""
    found = [(one.replies[better], one.replies[worse]) for one in told for better, worse in one.pairs]
    valued = sorted((one for one in told if one.value is not None), key=lambda one: one.value)
    for n, worse in enumerate(valued):
        found += [(better.replies[0], worse.replies[0]) for better in valued[n + 1 :] if better.value - worse.value > APART]
    return found
