"""Snapshots of lessons: freeze what a run learns from, and load it again."""

from collections.abc import Iterator, Sequence

from django.db.models import QuerySet

from apps.buffer.models import Snapshot
from apps.feedback.models import LESSONS, Lesson
from apps.runs.models import Run

AT_ONCE = 2_000  # rows read together


class LessonGone(Exception):
    """Raised for a lesson of the snapshot that was deleted or changed; the message names it."""


def freeze(run: Run) -> Snapshot:
    """Take the run's snapshot, once, of the lessons that exist when the run is started.

    Raises ValueError if there are none.
    """
    section = run.settings.snapshot
    assert section is not None  # the caller has looked
    return Snapshot.freeze(run, section.source, _lesson_digests(select_lessons(run)))


def select_lessons(run: Run) -> QuerySet:
    """Return the lessons that the run's `snapshot` section selects, oldest first."""
    section = run.settings.snapshot
    assert section is not None  # the caller has looked
    lessons = LESSONS[section.source].objects.filter(project=run.project_id)
    if run.started_at is not None:
        lessons = lessons.filter(at__lte=run.started_at)
    filters = {
        "task__taskset__slug": section.taskset,
        "run__slug": section.run,
        "source": section.imported_as,
    }
    return lessons.filter(
        **{field: value for field, value in filters.items() if value is not None}
    ).order_by("pk")


def lessons(source: str, ids: Sequence[int]) -> list[Lesson]:
    """Return the lessons of these ids, in their order. Raises LessonGone."""
    lesson_by_id = LESSONS[source].objects.in_bulk(set(ids))
    if missing := set(ids) - lesson_by_id.keys():
        raise LessonGone(f"{source}: {min(missing)} is in the snapshot, but no longer exists")
    return [lesson_by_id[pk] for pk in ids]


def require_unchanged(snapshot: Snapshot) -> None:
    """Check that every lesson is the same as when it was frozen. Raises LessonGone."""
    again = snapshot.digest_of(_lesson_digests(_frozen(snapshot)))
    if again != snapshot.digest:
        raise LessonGone(
            f"{snapshot}: they differ from what was frozen, {again[:12]} is not"
            f" {snapshot.digest[:12]}"
        )


def _frozen(snapshot: Snapshot) -> Iterator[Lesson]:
    for start in range(0, snapshot.size, AT_ONCE):
        places = snapshot.items.filter(position__gte=start, position__lt=start + AT_ONCE).order_by(
            "position"
        )
        yield from lessons(snapshot.source, list(places.values_list("lesson", flat=True)))


def _lesson_digests(lessons: QuerySet | Iterator[Lesson]) -> Iterator[tuple[int, str]]:
    rows = lessons.iterator(AT_ONCE) if isinstance(lessons, QuerySet) else lessons
    return ((lesson.pk, lesson.digest) for lesson in rows)
