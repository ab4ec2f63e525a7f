"""Delete old runs of the demo that people did not use, so that it does not fill the disk."""

import shutil
from pathlib import Path

from django.conf import settings
from django.db import models, transaction
from django.db.models import ProtectedError, QuerySet

from apps.feedback.models import Rating
from apps.runs.models import ExportJob, Run

KEPT = 3  # finished runs besides the one in training


def clear_old(runs: list[Run], keep: int = KEPT) -> list[str]:
    """Delete ended runs (given newest first) beyond the newest `keep`; return their names.

    Runs that somebody rated, wrote about, exported, pinned or built upon stay.
    """
    ended = [run for run in runs if run.state in Run.ENDED]
    return [run.slug for run in ended[keep:] if not is_touched(run) and _delete(run)]


def is_touched(run: Run) -> bool:
    """Tell whether a person has left something in the run that would be lost."""
    versions = run.weight_versions
    return (
        bool(run.notes or run.tags)
        or Rating.objects.filter(run=run, rater__is_simulated=False).exists()
        or versions.exclude(pinned_at=None).exists()
        or versions.filter(branches__isnull=False).exists()
        or ExportJob.objects.filter(weight_version__run=run).exists()
        or run.comparisons.exists()
        or run.chart_views.exists()
    )


def _delete(run: Run) -> bool:
    """Delete a run's rows in one transaction, then its files.

    Returns False if something refers to it.
    """
    topic = run.topic
    try:
        with transaction.atomic():
            delete_rows(Run.objects.filter(pk=run.pk))
            delete_rows(type(topic).objects.filter(pk=topic.pk))
    except ProtectedError:
        return False
    shutil.rmtree(Path(settings.WEIGHTS_ROOT) / f"run-{run.pk}", ignore_errors=True)
    return True


def delete_rows(rows: QuerySet, above: tuple[type[models.Model], ...] = ()) -> None:
    """Delete rows and their cascade with one statement per table, without loading them.

    Django's own deletion loads every row: too much for the tens of thousands of a run. Raises
    ProtectedError if a remaining row refers to them.
    """
    for relation in rows.model._meta.get_fields(include_hidden=True):
        if (
            relation.auto_created
            and not relation.concrete
            and (relation.one_to_many or relation.one_to_one)
        ):
            _follow(relation, rows, (*above, rows.model))
    rows._raw_delete(rows.db)


def _follow(
    relation: models.ForeignObjectRel, rows: QuerySet, above: tuple[type[models.Model], ...]
) -> None:
    name = relation.field.name
    referring = relation.related_model._base_manager.filter(**{f"{name}__in": rows.values("pk")})
    if relation.on_delete is models.CASCADE and relation.related_model not in above:
        delete_rows(referring, above)
    elif relation.on_delete is models.SET_NULL:
        referring.update(**{name: None})
    else:
        if relation.related_model is rows.model:
            referring = referring.exclude(pk__in=rows.values("pk"))
        if referring.exists():
            raise ProtectedError(
                f"{relation.related_model.__name__}.{name} refers to it", set(referring[:1])
            )
