"""The run that an address names in its query: `?run=12`, `?run=tone-7` or `?run=lab/tone-7`."""

from django.db.models import Q, QuerySet
from django.http import Http404

from apps.runs.models import Run

MAX_ID = 2**63 - 1
MAX_LISTED_NAMES = 3  # runs of the same name that the message lists
MAX_SHOWN_LENGTH = 60


def find_run_in_query(runs: QuerySet[Run], name: str) -> Run:
    """Return the run of these that has this id, this name, or this project and name.

    An id goes before a name of digits. Raises Http404 with a sentence on what is right.
    """
    number = read_run_id(name)
    if number is not None and (run := runs.filter(pk=number).first()):
        return run
    project, slash, slug = name.strip().rpartition("/")
    condition = Q(slug=slug, project__slug=project) if slash else Q(slug=slug)
    matches = list(
        runs.filter(condition).select_related("project").order_by("-pk")[: MAX_LISTED_NAMES + 1]
    )
    if len(matches) == 1:
        return matches[0]
    if not matches:
        short_name = name.strip()[:MAX_SHOWN_LENGTH]
        raise Http404(
            f"no run of your projects is “{short_name}”; run= takes its name or its number"
        )
    names = ", ".join(f"{run.project.slug}/{run.slug}" for run in matches[:MAX_LISTED_NAMES])
    raise Http404(f"several runs have this name; write run= with one of {names}")


def read_run_id(name: str) -> int | None:
    """Return the id that is written, or None where it is no id."""
    is_number = name.isascii() and name.isdigit() and len(name) <= len(str(MAX_ID))
    return int(name) if is_number and int(name) <= MAX_ID else None
