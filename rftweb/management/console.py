"""Shared parts of commands: objects by name with useful errors, and progress bars."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from django.core.management.base import CommandError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from apps.accounts.models import Project
from apps.runs.config import ConfigError
from apps.runs.models import Run

REDACT = (
    "replace e-mail addresses, telephone, IBAN and card numbers and IP addresses by marks, and "
    "report how many"
)


MAX_SHOWN_LENGTH = 160  # characters of a text in a preview


def dropped_lines(dropped: Mapping[str, int]) -> list[str]:
    """Say which fields of a file are not taken, and in how many rows they say something."""
    return (
        [f"skipped: {', '.join((f'{name} ({count})' for name, count in sorted(dropped.items())))}"]
        if dropped
        else []
    )


def shorten_to_line(text: str) -> str:
    """Return the text on one line, cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_LENGTH else text[: MAX_SHOWN_LENGTH - 1] + "…"


def project_named(slug: str | None) -> Project:
    """Return the project of that slug, or the only one that is not archived.

    Raises CommandError.
    """
    projects = list(
        Project.objects.kept().current() if slug is None else Project.objects.filter(slug=slug)
    )
    if len(projects) == 1:
        return projects[0]
    slugs = ", ".join(Project.objects.values_list("slug", flat=True)) or "none yet"
    raise CommandError(
        f"--project: {f'no project {slug!r}' if slug else 'name one'}; there are: {slugs}"
    )


def run_named(slug: str, project: str | None) -> Run:
    """Return the run of that slug, in that project if given; PROJECT/RUN names both.

    Raises CommandError if there is none, or several.
    """
    if "/" in slug:
        project, _, slug = slug.partition("/")
    runs = Run.objects.filter(slug=slug, **({"project__slug": project} if project else {}))
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise CommandError(
            f"several projects have a run {slug!r}; use "
            f"{' or '.join(f'{run.project.slug}/{slug}' for run in runs)}"
        )
    newest = ", ".join(Run.objects.values_list("slug", flat=True)[:10]) or "none yet"
    raise CommandError(f"no run {slug!r}; the newest are: {newest}")


def explained(error: ConfigError) -> CommandError:
    """Return an error with one line per wrong field."""
    lines = [f"  {field}: {problem}" for field, problem in error.problems.items()]
    return CommandError("the run configuration is not valid:\n" + "\n".join(lines))


class Rate(ProgressColumn):
    """A column with the progress per minute; empty until two samples are known."""

    def render(self, task: Task) -> Text:
        return Text(
            f"{60 * task.speed:,.1f}/min" if task.speed else "", style="progress.data.speed"
        )


@contextmanager
def show_progress_bar(
    what: str, total: int | None, start: int = 0, has_rate: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error; yield `at(done)`, which may set its `description`.

    Without a terminal only the end is shown. `start` is the amount done before; the rate covers
    what is done from there on.
    """
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(
        *columns, *([Rate()] if has_rate else []), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task(what, total=total, completed=start)
        yield lambda done, **more: progress.update(task, completed=done, **more)
