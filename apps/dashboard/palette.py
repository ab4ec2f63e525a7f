"""Search over everything with a page: pages, runs, people and settings that a user may open.

Each kind of thing is searched by one query, and gives a few rows. All words must match.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet
from django.urls import reverse

from apps.accounts.models import Membership, Project, User
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_steer
from apps.dashboard.context import navigation_places, rates_only
from apps.dashboard.run_pages import find_run_reader, tabs_for
from apps.dashboard.settings_form import load_settings_form
from apps.environments.models import Environment
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.tasksets.models import Taskset

ROWS = 6  # rows of one kind
MAX_WORDS = 6
MAX_QUERY_LENGTH = 100  # characters searched for
RUNS_WITH_PAGES = 2  # runs whose own pages are searched for the last word
MORE_PAGES = (
    ("run-new", "New run", "create train"),
    ("compare", "Compare runs", ""),
    ("arenas", "Arenas", "blind comparison"),
    ("my-work", "My work", "own ratings time"),
    ("alerts", "Alerts", "notifications"),
    ("policies", "Models", "policies"),
    ("logs", "Logs", "log lines errors"),
)
OF_RATERS = (("projects", "Projects", "members invitations"),)
OWN_SETTINGS = (
    ("tokens", "API tokens", "rest access"),
    ("keys", "Keyboard shortcuts of the Rate page", "keys"),
)


@dataclass(frozen=True)
class Row:
    """A thing that was found: its name, its page, and a few words about it."""

    label: str
    url: str
    about: str = ""


@dataclass(frozen=True)
class PaletteSection:
    """The rows of one kind."""

    title: str
    rows: Sequence[Row]


def find_by_words(request: SignedInRequest, text: str, beside: str = "") -> list[PaletteSection]:
    """Return what the user may open that contains all words of the text, by kind.

    `beside` is the run on whose page the user searches, as `project/run`: its pages and settings
    are found as well. Without words, pages only.
    """
    words = text[:MAX_QUERY_LENGTH].lower().split()[:MAX_WORDS]
    current_run = _run_at(request.user, beside)
    kinds: list[tuple[str, Iterable[Row]]] = []
    if current_run:
        kinds.append((f"This run: {current_run.slug}", _pages_of(request, current_run, words)))
    kinds.append(("Pages", _pages(request, words)))
    if words:
        kinds += [
            ("Runs", map(_run_row, _runs(request.user, words)[:ROWS])),
            ("Pages of runs", _inner_pages(request, words)),
            ("Tasksets, models and environments", _material(request.user, words)),
            ("People", _people(request.user, words)),
            ("Settings", _settings(request, current_run, words)),
        ]
    sections = [PaletteSection(title, _first(rows)) for title, rows in kinds]
    return [kind for kind in sections if kind.rows]


def _first(rows: Iterable[Row]) -> list[Row]:
    return [row for row, _ in zip(rows, range(ROWS), strict=False)]


def _has(text: str, words: Sequence[str]) -> bool:
    low = text.lower()
    return all(word in low for word in words)


def _among(rows: QuerySet, words: Sequence[str], *fields: str) -> QuerySet:
    """Select the rows that have each of the words in one of the fields."""
    for word in words:
        anywhere = Q()
        for name in fields:
            anywhere |= Q(**{f"{name}__icontains": word})
        rows = rows.filter(anywhere)
    return rows


def _pages(request: SignedInRequest, words: Sequence[str]) -> Iterator[Row]:
    only_rates = rates_only(request)
    for place in navigation_places(only_rates):
        if _has(place["word"], words):
            yield Row(place["word"], place["url"])
    more = OF_RATERS if only_rates else (*MORE_PAGES, *OF_RATERS)
    may_create = Project.objects.run_by(request.user).current().exists()
    for name, label, synonyms in more:
        if _has(f"{label} {synonyms}", words) and (name != "run-new" or may_create):
            yield Row(label, reverse(name))


def _run_at(user: User, address: str) -> Run | None:
    project, _, slug = address.partition("/")
    if not slug:
        return None
    runs = Run.objects.visible_to(user).select_related("project", "policy", "taskset")
    return runs.filter(project__slug=project, slug=slug).first()


def _runs(user: User, words: Sequence[str]) -> QuerySet[Run]:
    visible_runs = Run.objects.visible_to(user).select_related("project")
    return _among(visible_runs, words, "slug", "title", "project__slug").order_by(
        F("archived_at").asc(nulls_first=True), "-pk"
    )


def _run_row(run: Run) -> Row:
    archived = ", archived" if run.archived_at or run.project.archived_at else ""
    about = f"{run.project.slug}, {run.get_state_display()}{archived}"
    return Row(run.slug, reverse("run", args=[run.project.slug, run.slug]), about)


def _pages_of(request: SignedInRequest, run: Run, words: Sequence[str]) -> Iterator[Row]:
    for name, pages in tabs_for(run, find_run_reader(request, run)):
        for page in pages:
            if _has(f"{name} {page.label}", words):
                url = reverse(page.url, args=[run.project.slug, run.slug])
                yield Row(page.label, url, name)


def _inner_pages(request: SignedInRequest, words: Sequence[str]) -> Iterator[Row]:
    """Yield pages such as “tone cost”: the last word names the page, those before it the run."""
    *of_run, last = words
    if not of_run:
        return
    for run in _runs(request.user, of_run)[:RUNS_WITH_PAGES]:
        for row in _pages_of(request, run, [last]):
            yield Row(row.label, row.url, run.slug)


def _material(user: User, words: Sequence[str]) -> Iterator[Row]:
    kinds = ((Taskset, "taskset"), (Policy, "policy"))
    for model, name in kinds:
        visible_rows = model.objects.visible_to(user).select_related("project").order_by("-pk")
        for row in _among(visible_rows, words, "slug", "title")[:ROWS]:
            url = reverse(name, args=[row.project.slug, row.slug])
            yield Row(row.slug, url, f"{name} of {row.project.slug}")
    registered = Environment.objects.visible_to(user).select_related("project").order_by("-pk")
    for environment in _among(registered, words, "name")[:ROWS]:
        project = environment.project.slug
        url = reverse("environment", args=[project, environment.name])
        yield Row(environment.name, url, f"environment of {project}")


def _people(user: User, words: Sequence[str]) -> Iterator[Row]:
    """Yield members of the projects whose members the user manages."""
    owned = Project.objects.owned_by(user)
    members = Membership.objects.filter(project__in=owned).select_related("user", "project")
    for member in _among(members, words, "user__username").order_by("user__username", "pk")[:ROWS]:
        about = f"{member.get_role_display().lower()} of {member.project.title}"
        yield Row(member.user.username, reverse("project", args=[member.project.slug]), about)


def _settings(request: SignedInRequest, run: Run | None, words: Sequence[str]) -> Iterator[Row]:
    for anchor, label, synonyms in OWN_SETTINGS:
        if _has(f"{label} {synonyms}", words):
            yield Row(label, f"{reverse('settings')}#{anchor}", "your settings")
    owned = Project.objects.owned_by(request.user).order_by(
        F("archived_at").asc(nulls_first=True), "slug"
    )
    for project in _among(owned, words, "slug", "title").distinct()[:ROWS]:
        about = "members, groups and invitations" + (", archived" if project.archived_at else "")
        yield Row(project.title, reverse("project", args=[project.slug]), about)
    if run and may_steer(request, run):
        page = reverse("run-settings", args=[run.project.slug, run.slug])
        may_delete = Run.objects.owned_by(request.user).filter(pk=run.pk).exists()
        if may_delete and _has("delete run", words):
            url = reverse("run-delete", args=[run.project.slug, run.slug])
            yield Row("Delete run", url, run.slug)
        for part in load_settings_form(run).parts:
            for knob in part.knobs:
                if _has(f"{part.title} {knob.label} {knob.address}", words):
                    about = f"{part.title}, setting of {run.slug}"
                    anchor = (
                        f"part-{part.name or 'run'}" if knob.is_several else f"knob-{knob.slug}"
                    )
                    yield Row(knob.label, f"{page}#{anchor}", about)
