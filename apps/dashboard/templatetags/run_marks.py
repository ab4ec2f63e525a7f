"""The navigation of one run's pages, its six tabs and its breadcrumbs, and links to ratings."""

from collections.abc import Mapping, Sequence

from django import template
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from apps.dashboard.run_pages import LABELS, find_run_reader, run_page_url, tabs_for
from apps.runs.models import Run

register = template.Library()
MAX_WORDS_LENGTH = 32  # characters of a rating in a list


@register.inclusion_tag("dashboard/_run_tabs.html", takes_context=True)
def run_tabs(context: RequestContext, run: Run, place: str) -> dict:
    """Return the tabs that this person may open; below them, the pages of the open tab."""
    request = context["request"]
    tabs = []
    beside: list[dict] = []
    for name, pages in tabs_for(run, find_run_reader(request, run)):
        links = [
            {
                "label": page.label,
                "url": reverse(page.url, args=[run.project.slug, run.slug]),
                "is_here": page.place == place,
            }
            for page in pages
        ]
        is_here = any(link["is_here"] for link in links)
        beside = links if is_here else beside
        tabs.append({"label": name, "url": links[0]["url"], "is_here": is_here})
    return {"request": request, "run": run, "place": place, "tabs": tabs, "beside": beside}


@register.inclusion_tag("dashboard/_run_crumbs.html")
def run_crumbs(run: Run, place: str, leaf: str = "", via: str = "", via_url: str = "") -> dict:
    """Return the way to a page: runs, project, run, the page and the thing shown on it (`leaf`).

    `via` names a page between the last two, with its URL.
    """
    is_summary = place == "overview"
    return {
        "run": run,
        "page": "" if is_summary else LABELS[place],
        "page_url": run_page_url(run, place),
        "leaf": leaf,
        "via": via,
        "via_url": via_url,
    }


@register.simple_tag
def rating_links(ratings: Sequence[Mapping]) -> SafeString:
    """Return a link to each rating, from rows with `rating` and its `words`.

    Drawn here, not by a template: a page of traces has hundreds of them.
    """
    address = reverse("rating", args=[0])
    rows = [
        (
            " simulated" if row["rating"].rater.is_simulated else "",
            address.replace("/0/", f"/{row['rating'].pk}/"),
            row["rating"].rater.username,
            ", simulated" if row["rating"].rater.is_simulated else "",
            row["words"],
            row["rating"].rater.username,
            _shortened(row["words"]),
        )
        for row in ratings
    ]
    link = '<a class="rating-chip{}" href="{}" title="{}{}: {}"><b>{}</b> {}</a>'
    return format_html_join("", link, rows)


def _shortened(words: str) -> str:
    return Truncator(words).chars(MAX_WORDS_LENGTH) if len(words) > MAX_WORDS_LENGTH else words
