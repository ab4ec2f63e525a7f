"""The pages of a run: six tabs, the pages below each, and who may open them.

A page that would refuse a person, or show only that it is hidden from them, is not offered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from django.urls import reverse

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer
from apps.runs.models import Run


class Reader(IntEnum):
    """How much of a run somebody may open; each includes those before it."""

    MEMBER = 1
    SEES_JUDGEMENTS = 2  # does not rate the run blind
    STEERS = 3  # owners and researchers


@dataclass(frozen=True)
class RunPage:
    """A page below a tab: `place` is its name in templates, `url` that of its URL pattern."""

    place: str
    url: str
    label: str
    reader: Reader
    of_evaluations: bool = True


OPEN = Reader.SEES_JUDGEMENTS
STEERS = Reader.STEERS
RESULTS = RunPage("evaluations", "run-evaluations", "Results", OPEN)
TABS: dict[str, tuple[RunPage, ...]] = {
    "Overview": (
        RunPage("overview", "run", "Summary", Reader.MEMBER, of_evaluations=False),
        RunPage("charts", "run-charts", "Charts", OPEN, of_evaluations=False),
        RunPage("alerts", "run-alerts", "Alerts", Reader.MEMBER),
        RunPage("suspicions", "run-suspicions", "Reward hacking", STEERS, of_evaluations=False),
        RunPage("cost", "run-cost", "Cost", Reader.MEMBER),
        RunPage("logs", "run-logs", "Logs", OPEN),
    ),
    "Rollouts": (
        RunPage("rollouts", "rollouts", "All rollouts", Reader.MEMBER),
        RunPage("buffer", "run-buffer", "Buffer", OPEN, of_evaluations=False),
        RunPage("rescorings", "run-rescorings", "Rescore", STEERS),
    ),
    "Evaluate": (
        RunPage("evaluations", "run-evaluations", "Evaluations", OPEN, of_evaluations=False),
        RunPage("compare", "run-weights-compare", "Compare versions", OPEN, of_evaluations=False),
    ),
    "People": (
        RunPage("people", "run-people", "Rating setup", Reader.MEMBER),
        RunPage("gold", "run-gold", "Gold items", STEERS),
        RunPage("quality", "run-quality", "Quality", STEERS),
        RunPage("calibration", "run-calibration", "Calibration", STEERS),
        RunPage("adjudicate", "run-adjudicate", "Disagreements", STEERS),
        RunPage("rater-model", "run-rater-model", "Rater model", STEERS),
        RunPage("bought", "run-bought", "Rater impact", STEERS),
    ),
    "Weights & export": (
        RunPage("weights", "run-weights", "Weights", OPEN),
        RunPage("exports", "run-exports", "Exports", STEERS),
        RunPage("trace", "run-trace", "Trace", STEERS),
    ),
    "Configure": (
        RunPage("settings", "run-settings", "Settings", Reader.MEMBER),
        RunPage("pipeline", "run-pipeline", "Pipeline", OPEN, of_evaluations=False),
        RunPage("labels", "run-labels", "Tags and notes", Reader.MEMBER),
        RunPage("audit", "run-audit", "Audit log", STEERS),
    ),
}
LABELS = {page.place: page.label for pages in TABS.values() for page in pages}


def find_run_reader(request: SignedInRequest, run: Run) -> Reader:
    """Return how much of the run this person may open."""
    if may_steer(request, run):
        return Reader.STEERS
    return OPEN if may_see_judgements(request, run) else Reader.MEMBER


def tabs_for(run: Run, reader: Reader) -> Iterator[tuple[str, list[RunPage]]]:
    """Yield each tab with the pages that this reader may open; tabs without pages are left out.

    An evaluation has no curves: its results are its overview.
    """
    for name, pages in TABS.items():
        offered = [RESULTS, *pages] if run.is_evaluation and name == "Overview" else pages
        readable_pages = [
            page
            for page in offered
            if reader >= page.reader and (page.of_evaluations or not run.is_evaluation)
        ]
        if readable_pages:
            yield name, readable_pages


def run_page_url(run: Run, place: str) -> str:
    """Return the URL of a page of the run."""
    names = {page.place: page.url for pages in TABS.values() for page in pages}
    return reverse(names[place], args=[run.project.slug, run.slug])
