"""Blind arenas for pages: evaluations to compare, who may see results, and rows of standings."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, Window
from django.db.models.functions import RowNumber

from apps.accounts.models import User
from apps.evaluation.arena.making import contestable
from apps.evaluation.arena.standings import Score, Standing, Standings
from apps.evaluation.models import Arena, Contestant
from apps.runs.blind_review import open_among
from apps.runs.models import Run

OFFERED = 200  # evaluations of the run, and as many of other runs
DOMAINS_SHOWN = 40


@dataclass(frozen=True)
class Offer:
    """Evaluations over one taskset that can be compared."""

    taskset: str
    own_evaluations: Sequence[Run]
    other_evaluations: Sequence[Run]
    hidden: int = 0  # evaluations of the run that are older than those offered

    @property
    def is_enough(self) -> bool:
        return len(self.own_evaluations) + len(self.other_evaluations) > 1


def list_offers(run: Run) -> list[Offer]:
    """Return complete evaluations that can be compared with those of the run, by taskset.

    These are the newest evaluation of the run and that of its base, and the newest of other runs
    over the same tasksets. Three queries.
    """
    evaluations = (
        contestable(run.project)
        .select_related("taskset", "policy", "evaluates__run")
        .order_by("-pk")
    )
    of_run = evaluations.filter(evaluates__run=run)
    rank = Window(RowNumber(), partition_by=F("taskset"), order_by="-pk")
    run_evaluations = list(
        of_run.annotate(rank=rank).filter(Q(rank__lte=OFFERED) | Q(evaluates__version=0))
    )
    counts = dict(of_run.order_by().values_list("taskset").annotate(n=Count("pk")))
    tasksets = list(
        dict.fromkeys(evaluation.taskset for evaluation in run_evaluations if evaluation.taskset)
    )
    other_evaluations = (
        list(evaluations.filter(taskset__in=tasksets).exclude(evaluates__run=run)[:OFFERED])
        if run_evaluations
        else []
    )
    offers = []
    for taskset in tasksets:
        own_choices = [run for run in run_evaluations if run.taskset == taskset]
        offers.append(
            Offer(
                taskset.slug,
                own_choices,
                [run for run in other_evaluations if run.taskset == taskset],
                counts[taskset.pk] - len(own_choices),
            )
        )
    return [offer for offer in offers if offer.is_enough]


def evaluation_label(run: Run) -> str:
    """Return a label of an evaluation: the policy, or the version and run that it evaluates."""
    version = run.evaluates
    if version is None:
        return run.policy.slug
    base = "" if version.version else " (base)"
    return f"v{version.version} of {version.run.slug}{base}"


def seen_among(user: User, arenas: Sequence[Arena]) -> set[int]:
    """Return the ids of the arenas whose standings the user may see, in two queries.

    Someone who rates one of an arena's runs blind does not see its standings.
    """
    rows = list(
        Contestant.objects.filter(arena__in=arenas).values_list(
            "arena", "run", "run__evaluates__run"
        )
    )
    open_run_ids = open_among(user, {run for _, *runs in rows for run in runs if run})
    blind = {arena for arena, *runs in rows if any(run and run not in open_run_ids for run in runs)}
    return {arena.pk for arena in arenas} - blind


@dataclass(frozen=True)
class Row:
    """A contestant; `low`, `middle`, `high` are places on the scale of all strengths, 0 to 1.

    They are None without a strength.
    """

    standing: Standing
    label: str
    low: float | None = None
    middle: float | None = None
    high: float | None = None


def build_standings_rows(standings: Standings) -> list[Row]:
    strengths = [row.strength for row in standings.rows if row.strength]
    if not strengths:
        return [Row(row, evaluation_label(row.contestant.run)) for row in standings.rows]
    first = min(strength.low for strength in strengths)
    last = max(strength.high for strength in strengths)
    wide = (last - first) or 1.0

    def placed(points: float) -> float:
        return (points - first) / wide

    rows = []
    for row in standings.rows:
        label = evaluation_label(row.contestant.run)
        if (strength := row.strength) is None:
            rows.append(Row(row, label))
        else:
            ends = placed(strength.low), placed(strength.points), placed(strength.high)
            rows.append(Row(row, label, *ends))
    return rows


def build_score_matrix(standings: Standings) -> list[list[Score | None]]:
    """Return the scores of row against column, in the order of the standings.

    They are None on the diagonal.
    """
    ids = [row.contestant.pk for row in standings.rows]
    return [
        [
            None if row_id == column_id else standings.against.get((row_id, column_id), Score())
            for column_id in ids
        ]
        for row_id in ids
    ]


def list_domain_scores(standings: Standings) -> list[tuple[str, list[Score]]]:
    """Return the domains with most votes, with scores in the order of the standings.

    Empty without domains.
    """
    if not any(standings.domains):
        return []
    ids = [row.contestant.pk for row in standings.rows]
    most_voted = sorted(
        standings.domains.items(),
        key=lambda item: (-sum(score.of for score in item[1].values()), item[0]),
    )
    return [
        (domain or "(none)", [scores.get(pk, Score()) for pk in ids])
        for domain, scores in most_voted[:DOMAINS_SHOWN]
    ]
