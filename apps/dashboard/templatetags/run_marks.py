"""The navigation of one run's pages: its six tabs, and its breadcrumbs."""

from django import template
from django.template.context import RequestContext
from django.urls import reverse

from apps.dashboard.run_pages import LABELS, find_run_reader, run_page_url, tabs_for
from apps.runs.models import Run

register = template.Library()


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
