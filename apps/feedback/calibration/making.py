"""Compute a run's calibration from the newest labels and the scorers' values."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from django.db import connection, transaction
from django.db.models import Max

from apps.feedback.calibration.labels import Label, load_newest_labels
from apps.feedback.models import Calibration, Rating
from apps.rewards.combining import find_scorer_range
from apps.rewards.models import Reward
from apps.runs.models import Run
from apps.statistics.calibration import JudgedReply, compute_calibration, scale_to_range

WIDEST = 200  # the most disagreements kept per scorer
NARROW = 0.05  # share of the range; a smaller distance is no disagreement
LOCK = 0x6361_6C69  # the key of the advisory lock of a run's calibration


@transaction.atomic
def write_calibrations(run: Run) -> bool:
    """Write the calibration of each scorer over all tasks and, if there are several, by domain.

    Returns False if another process is computing it. The number of statements is fixed.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK, run.pk % 2**31])
        if not cursor.fetchone()[0]:
            return False
    newest = Rating.objects.filter(run=run).aggregate(newest=Max("pk"))["newest"] or 0
    Calibration.objects.bulk_create(
        build_calibrations(run, newest),
        update_conflicts=True,
        unique_fields=["run", "scorer", "domain"],
        update_fields=["metrics", "widest", "last_rating", "made_at"],
    )
    # Delete calibrations of domains without any label now.
    Calibration.objects.filter(run=run, last_rating__lt=newest).delete()
    return True


def build_calibrations(run: Run, newest: int) -> list[Calibration]:
    """Return the run's calibrations, not saved yet."""
    labels = load_newest_labels(run)
    scorers = [choice.scorer for choice in run.settings.rewards]
    judged = group_labels_by_scorer(scorers, labels)
    domain_of = {label.rollout: label.domain for label in labels}
    rows = []
    for scorer in scorers:
        parts: dict[str | None, list[JudgedReply]] = {None: judged[scorer]}
        domains = sorted({domain_of[row.rollout] for row in judged[scorer]})
        if len(domains) > 1:
            parts |= {
                domain: [row for row in judged[scorer] if domain_of[row.rollout] == domain]
                for domain in domains
            }
        for domain, judged_replies in parts.items():
            metrics = asdict(compute_calibration(judged_replies))
            widest = _widest(judged_replies) if domain is None else []
            rows.append(
                Calibration(
                    run=run,
                    scorer=scorer,
                    domain=domain,
                    metrics=metrics,
                    widest=widest,
                    last_rating=newest,
                )
            )
    return rows


def group_labels_by_scorer(
    scorers: Sequence[str], labels: Sequence[Label]
) -> dict[str, list[JudgedReply]]:
    """Return, by scorer, the labelled replies with the values of its newest version among them.

    One statement.
    """
    rewards = Reward.objects.filter(
        rollout__in=[label.rollout for label in labels], scorer__in=scorers, by=None
    ).exclude(value=None)
    names = (
        "rollout",
        "scorer",
        "version",
        "value",
        "details__votes",
        "details__places",
        "details__among",
    )
    of: dict[str, dict[int, tuple]] = defaultdict(dict)
    for rollout, scorer, *words in rewards.values_list(*names):
        of[scorer][rollout] = tuple(words)
    judged_by_scorer = {}
    for scorer in scorers:
        ends = find_scorer_range(scorer)
        newest = max((version for version, *_ in of[scorer].values()), default=0)
        rows = [
            (label, of[scorer][label.rollout]) for label in labels if label.rollout in of[scorer]
        ]
        judged_by_scorer[scorer] = [
            _build_judged(label, words, ends) for label, words in rows if words[0] == newest
        ]
    return judged_by_scorer


def _build_judged(label: Label, words: tuple, ends: tuple[float, float]) -> JudgedReply:
    _, value, votes, places, among = words
    looks = (
        zip(places, votes, strict=True) if votes and places and len(votes) == len(places) else ()
    )
    stood = tuple((place, among, scale_to_range(vote, *ends)) for place, vote in looks)
    return JudgedReply(
        label.rollout, label.group, scale_to_range(value, *ends), label.value, label.length, stood
    )


def _widest(rows: Sequence[JudgedReply]) -> list[tuple[int, float, float]]:
    """Return the largest disagreements first, then the newest."""
    apart = [row for row in rows if abs(row.scorer - row.people) >= NARROW]
    first = sorted(apart, key=lambda row: (-round(abs(row.scorer - row.people), 6), -row.rollout))[
        :WIDEST
    ]
    return [(row.rollout, round(row.scorer, 4), round(row.people, 4)) for row in first]
