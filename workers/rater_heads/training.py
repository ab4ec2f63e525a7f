"""Training of a scalar head on a run's decisions: the choice of pairs, and the stored results.

Pairs are sampled from decisions with different numbers, of whatever prompts, and from comparisons.
Held-out pairs calibrate the score and show whether the head is any good.
"""

import shutil
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import structlog
from django.conf import settings
from django.db import connection

from apps.feedback.models import RaterModel
from apps.feedback.rater_model import heads
from apps.feedback.rater_model.heads import HeadDecision
from apps.runs.models import Run
from workers.rater_heads.fitting import fit_head
from workers.reward_models import LoadedModel

log = structlog.get_logger(__name__)
APART = 0.2  # the least difference of values for a pair
KEPT = 2  # newest heads whose weights are kept
LOCK = 0x6865_6164  # one process per run trains a head


def train_head(run: Run) -> RaterModel | None:
    """Train and store a new head with its metrics.

    Returns None when another process is training one or there is nothing to learn.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK, run.pk % 2**31])
        if not cursor.fetchone()[0]:
            return None
        try:
            return _train(run)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOCK, run.pk % 2**31])


def _train(run: Run) -> RaterModel | None:
    decisions = heads.list_learnable_decisions(run)
    learned = [decision for decision in decisions if not heads.is_held_out(decision)]
    pool = build_preference_pairs(learned)
    if not pool:
        return None
    folder = settings.WEIGHTS_ROOT / f"run-{run.pk}" / "heads" / str(decisions[-1].rating)
    if not folder.exists():
        fit_head(run, pool, folder)
    model = LoadedModel(folder)
    stored = heads.store_head(
        run, folder, decisions, dict(zip(*_scored(model, decisions), strict=True))
    )
    _forget_all_but(KEPT, folder.parent)
    log.info("rater_head_trained", run=run, decisions=len(decisions), **stored.metrics)
    return stored


def _forget_all_but(newest: int, heads_of_run: Path) -> None:
    """Delete older weights; a refiner that has them loaded keeps them until it loads the newest."""
    for old in sorted(
        (f for f in heads_of_run.iterdir() if f.name.isdigit()), key=lambda f: int(f.name)
    )[:-newest]:
        shutil.rmtree(old, ignore_errors=True)


def _scored(
    model: LoadedModel, decisions: Sequence[HeadDecision]
) -> tuple[list[heads.Reply], list[float | None]]:
    replies = list(dict.fromkeys(reply for decision in decisions for reply in decision.replies))
    verdicts = model.judge([(reply.messages, reply.text) for reply in replies])
    return replies, [verdict.details.get("score") for verdict in verdicts]


def build_preference_pairs(
    decisions: Sequence[HeadDecision],
) -> list[tuple[heads.Reply, heads.Reply]]:
    """Return (better, worse) pairs from comparisons and from decisions with differing numbers."""
    pairs = [
        (decision.replies[better], decision.replies[worse])
        for decision in decisions
        for better, worse in decision.pairs
    ]
    valued = [
        (decision.value, decision.replies) for decision in decisions if decision.value is not None
    ]
    valued.sort(key=itemgetter(0))
    for n, (low, worse) in enumerate(valued):
        higher = [better for high, better in valued[n + 1 :] if high - low > APART]
        pairs += [(better[0], worse[0]) for better in higher]
    return pairs
