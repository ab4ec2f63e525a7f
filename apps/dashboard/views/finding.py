"""Search for pages, runs, people and settings: the command palette, and its page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.palette import MAX_QUERY_LENGTH, find_by_words


@require_safe
@login_required
def show_search(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: what they may open that matches `words`, as a page."""
    return render(request, "dashboard/find.html", _search_context(request) | {"section": "find"})


@require_safe
@login_required
def list_search_options(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the same as options of the command palette.

    `run` is the run on whose page it is open.
    """
    return render(request, "dashboard/_palette_rows.html", _search_context(request))


def _search_context(request: SignedInRequest) -> dict:
    words = request.GET.get("words", "")[:MAX_QUERY_LENGTH]
    sections = find_by_words(request, words, request.GET.get("run", ""))
    return {"words": words, "sections": sections, "max_length": MAX_QUERY_LENGTH}
