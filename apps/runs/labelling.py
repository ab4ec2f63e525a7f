"""Tags, notes and the archive, by which people organise runs.

None of them changes what a run learns.
"""

import re
from collections.abc import Callable, Iterable

from django.utils import timezone

from apps.accounts.locking import lock_rows, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.runs.models import NotPossible, Run

TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,29}")
MAX_TAGS = 20
MAX_NOTES_LENGTH = 20_000
AT_WORK = (Run.State.RUNNING, Run.State.PAUSED)


def tags_in(text: str) -> list[str]:
    """Return the typed tags, separated by commas or spaces, each once, in order.

    Raises ValueError with what is right.
    """
    tags = sorted({word.lower().removeprefix("#") for word in re.split(r"[\s,]+", text) if word})
    if wrong := [word for word in tags if not TAG.fullmatch(word)]:
        raise ValueError(
            f"{wrong[0]!r} is not a valid tag: use up to 30 of a-z, 0-9, dot, dash and underscore, "
            "and begin with a-z or 0-9"
        )
    if len(tags) > MAX_TAGS:
        raise ValueError(f"there are {len(tags)} tags; a run can have at most {MAX_TAGS}")
    return tags


def tag(runs: Iterable[Run], words: list[str], by: User | None) -> int:
    """Add these tags to the runs; return how many runs lacked one of them.

    Raises NotPossible where a run would have too many.
    """
    return _change_labels(
        runs, by, "run tagged", lambda run: {"tags": _few(run, {*run.tags, *words})}
    )


def untag(runs: Iterable[Run], words: list[str], by: User | None) -> int:
    return _change_labels(
        runs, by, "run untagged", lambda run: {"tags": sorted({*run.tags} - {*words})}
    )


def label(run: Run, words: list[str], notes: str, by: User | None) -> int:
    """Replace tags and notes."""
    return _change_labels(
        [run], by, "run labelled", lambda run: {"tags": words, "notes": notes[:MAX_NOTES_LENGTH]}
    )


def archive(runs: Iterable[Run], by: User | None) -> int:
    """Leave the runs out of lists.

    Raises NotPossible for one that is at work: what spends money stays in sight.
    """
    now = timezone.now()
    return _change_labels(
        runs,
        by,
        "run archived",
        lambda run: {"archived_at": run.archived_at or (_require_at_rest(run) and now)},
    )


def restore(runs: Iterable[Run], by: User | None) -> int:
    return _change_labels(runs, by, "run restored", lambda run: {"archived_at": None})


@unit_of_work
def _change_labels(
    runs: Iterable[Run], by: User | None, action: str, fields_of: Callable[[Run], dict[str, object]]
) -> int:
    """Change all of the runs or none, and return how many changed.

    Those that are as asked already leave no record.
    """
    chosen = Run.objects.select_related("project", "topic").filter(pk__in=[run.pk for run in runs])
    count = 0
    for run in lock_rows(chosen):
        after = fields_of(run)
        before = {name: getattr(run, name) for name in after}
        if after == before:
            continue
        Run.objects.filter(pk=run.pk).update(**after)
        changes = {"before": _plain(before), "after": _plain(after)}
        run.topic.record("labels_changed", **changes, by=str(by or ""))
        AuditEntry.record(action, run.address, by, run.project, **changes)
        count += 1
    return count


def _few(run: Run, tags: set[str]) -> list[str]:
    if len(tags) > MAX_TAGS:
        raise NotPossible(f"run {run.slug} would have {len(tags)} tags; the maximum is {MAX_TAGS}")
    return sorted(tags)


def _require_at_rest(run: Run) -> bool:
    if run.state in AT_WORK:
        raise NotPossible(
            f"run {run.slug} is {run.get_state_display()}: stop it before you archive it"
        )
    return True


def _plain(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields with dates and times as ISO texts, so that JSON can hold them."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in fields.items()
    }
