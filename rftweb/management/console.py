"""What the commands share: finding things by name with a useful error, and bars for long work."""

from collections.abc import Callable, Iterator
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

REDACT = "put marks for e-mail addresses, telephone, IBAN and card numbers and IP addresses, and tell how many"


def project_named(slug: str | None) -> Project:
    """The project of that slug; without a slug the only one there is. Raises CommandError."""
    if slug is None and Project.objects.count() == 1:
        return Project.objects.get()
    found = Project.objects.filter(slug=slug).first()
    if found:
        return found
    known = ", ".join(Project.objects.values_list("slug", flat=True)) or "none yet"
    raise CommandError(f"--project: {f'no project {slug!r}' if slug else 'say which'}; there are: {known}")


def run_named(slug: str, project: str | None) -> Run:
    """The run of that slug, in that project when given; PROJECT/RUN says both. Raises CommandError: there is none, or several."""
    if "/" in slug:
        project, _, slug = slug.partition("/")
    runs = Run.objects.filter(slug=slug, **({"project__slug": project} if project else {}))
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise CommandError(f"several projects have a run {slug!r}; say {' or '.join(f'{run.project.slug}/{slug}' for run in runs)}")
    newest = ", ".join(Run.objects.values_list("slug", flat=True)[:10]) or "none yet"
    raise CommandError(f"no run {slug!r}; the newest are: {newest}")


def explained(error: ConfigError) -> CommandError:
    """One line per field that is wrong."""
    lines = [f"  {field}: {problem}" for field, problem in error.problems.items()]
    return CommandError("the run configuration is not usable:\n" + "\n".join(lines))


class Rate(ProgressColumn):
    """How much of the whole is done in a minute; nothing until two looks are known."""

    def render(self, task: Task) -> Text:
        return Text(f"{60 * task.speed:,.1f}/min" if task.speed else "", style="progress.data.speed")


@contextmanager
def bar(what: str, total: int, start: int = 0, has_rate: bool = False) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error; yields `at(done)`, which may change its `description`. Without a terminal: the end only.

    `start`: what was done before; a rate is of what is done from there on.
    """
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, *([Rate()] if has_rate else []), console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total, completed=start)
        yield lambda done, **more: progress.update(task, completed=done, **more)
