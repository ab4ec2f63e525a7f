"""Create an arena from evaluations, and close it."""

import secrets
from collections.abc import Sequence
from itertools import combinations

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, Project, User
from apps.evaluation.models import Arena, Contestant, Pairing
from apps.evaluation.models.arenas import MAX_CONTESTANTS, MIN_CONTESTANTS
from apps.runs.config import ConfigError
from apps.runs.models import Run

MAX_TITLE_LENGTH = 100


def contestable(project: Project) -> QuerySet[Run]:
    """Return the project's complete evaluations, whose answers no longer change."""
    return project.runs.filter(is_evaluation=True, state=Run.State.COMPLETED)


@transaction.atomic
def create_arena(
    project: Project, by: User, title: str, evaluations: Sequence[int], again: float = 0.0
) -> Arena:
    """Create an arena of these evaluations (ids), in this order.

    The caller checks that the user may steer the project. Raises ConfigError: too few or too many,
    of several tasksets, not complete, or without two answers that differ.
    """
    runs = _runs(project, evaluations)
    taskset = runs[0].taskset
    assert taskset is not None  # an evaluation has one
    title = title.strip() or f"{taskset.slug}, {len(runs)} contestants"
    problems = {}
    if len(title) > MAX_TITLE_LENGTH or "\x00" in title:
        problems["title"] = f"must be text with at most {MAX_TITLE_LENGTH} characters"
    if not 0 <= again <= 1:  # refuses NaN too
        problems["again"] = "must be between 0 and 100 %"
    if problems:
        raise ConfigError(problems)
    arena = Arena.objects.create(
        project=project,
        taskset=taskset,
        title=title,
        by=by,
        secret=secrets.token_hex(32),
        again=again,
        tasks=min(run.tasks_asked for run in runs),
        samples=min(run.settings.group_size for run in runs),
    )
    contestants = Contestant.objects.bulk_create(
        Contestant(arena=arena, run=run, place=n) for n, run in enumerate(runs)
    )
    common_counts = _count_common(arena, contestants)
    if not any(differ for differ, _ in common_counts.values()):
        raise ConfigError(
            {"contestants": "gave the same reply to every task: there is nothing to compare"}
        )
    Pairing.objects.bulk_create(
        Pairing(arena=arena, first=first, second=second, size=size, same=same_count)
        for first, second in combinations(contestants, 2)
        for size, same_count in [common_counts.get((first.pk, second.pk), (0, 0))]
    )
    AuditEntry.record(
        "arena made",
        f"arena {arena.pk} {title}",
        by,
        project,
        contestants=[run.slug for run in runs],
        again=again,
    )
    return arena


@transaction.atomic
def close_arena(arena: Arena, by: User) -> None:
    """Close the arena to votes; its votes and standings stay."""
    if Arena.objects.open().filter(pk=arena.pk).update(closed_at=Now()):
        AuditEntry.record("arena closed", f"arena {arena.pk} {arena.title}", by, arena.project)


@transaction.atomic
def open_again(arena: Arena, by: User) -> None:
    if Arena.objects.filter(pk=arena.pk, closed_at__isnull=False).update(closed_at=None):
        AuditEntry.record(
            "arena opened again", f"arena {arena.pk} {arena.title}", by, arena.project
        )


def _runs(project: Project, evaluations: Sequence[int]) -> list[Run]:
    chosen = list(dict.fromkeys(evaluations))
    if not MIN_CONTESTANTS <= len(chosen) <= MAX_CONTESTANTS:
        raise ConfigError(
            {
                "contestants": f"choose {MIN_CONTESTANTS} to {MAX_CONTESTANTS} evaluations; you chose {len(chosen)}"
            }
        )
    run_by_id = {
        run.pk: run for run in contestable(project).filter(pk__in=chosen).select_related("taskset")
    }
    if len(run_by_id) < len(chosen):
        raise ConfigError(
            {"contestants": f"must be complete evaluations of project {project.slug!r}"}
        )
    if len({run.taskset_id for run in run_by_id.values()}) > 1:
        names = ", ".join(sorted({run.taskset.slug for run in run_by_id.values() if run.taskset}))
        raise ConfigError(
            {"contestants": f"must be evaluations on the same taskset; these are on {names}"}
        )
    return [run_by_id[pk] for pk in chosen]


# For each two contestants: the number of pairs with different answers, and with equal ones.
COUNTED = """
    WITH answers AS MATERIALIZED (
        SELECT c.id AS contestant, g.draw_index, r.sample_index,
            hashtextextended(r.text, 0) AS words
        FROM evaluation_contestant c
            JOIN rollouts_group g ON g.run_id = c.run_id AND g.draw_index < %(tasks)s
            JOIN rollouts_rollout r ON r.group_id = g.id
        WHERE c.arena_id = %(arena)s AND r.origin = 'policy' AND r.state = 'finished'
            AND r.sample_index < %(samples)s)
    SELECT a.contestant, b.contestant, count(*) FILTER (WHERE a.words <> b.words),
        count(*) FILTER (WHERE a.words = b.words)
    FROM answers a JOIN answers b USING (draw_index, sample_index)
        WHERE a.contestant < b.contestant GROUP BY 1, 2"""


def _count_common(
    arena: Arena, contestants: Sequence[Contestant]
) -> dict[tuple[int, int], tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(COUNTED, {"arena": arena.pk, "tasks": arena.tasks, "samples": arena.samples})
        return {
            (first, second): (differ, same_count)
            for first, second, differ, same_count in cursor.fetchall()
        }
