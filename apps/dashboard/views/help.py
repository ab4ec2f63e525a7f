"""Help: the documentation in docs/, with search."""

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import FileResponse, Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.help import library, rendering
from apps.dashboard.help.search import search_help

MAX_QUERY_LENGTH = 100


class HelpSearch(forms.Form):
    q = forms.CharField(max_length=MAX_QUERY_LENGTH, required=False, label="Search help")


@require_safe
@login_required
def contents(request: SignedInRequest) -> HttpResponse:
    """Everybody who is signed in."""
    return _page(request, "")


@require_safe
@login_required
def show_help_page(request: SignedInRequest, name: str) -> HttpResponse:
    """Everybody who is signed in."""
    return _page(request, name)


@require_safe
@login_required
def file(request: SignedInRequest, name: str) -> FileResponse:
    """Everybody who is signed in: a picture or another file that the pages show."""
    path = library.files().get(name)
    if path is None:
        raise Http404
    response = FileResponse(path.open("rb"), content_type=library.FILE_TYPES[path.suffix])
    response["Cache-Control"] = "private, max-age=3600"
    return response


@require_safe
@login_required
def find_in_help(request: SignedInRequest) -> HttpResponse:
    """Everybody who is signed in."""
    form = HelpSearch(request.GET)
    query = form.cleaned_data["q"] if form.is_valid() else ""
    context = _frame("") | {
        "query": request.GET.get("q", "")[: 2 * MAX_QUERY_LENGTH],
        "errors": form.errors.get("q", []),
        "results": search_help(query),
    }
    status = 200 if form.is_valid() else 422
    return render(request, "dashboard/help_search.html", context, status=status)


def _page(request: SignedInRequest, name: str) -> HttpResponse:
    page = library.read_help_pages().get(name)
    if page is None:
        raise Http404
    context = _frame(name) | {"page": page, "rendered": rendering.render_help_page(name)}
    return render(request, "dashboard/help.html", context)


def _frame(name: str) -> dict:
    return {"section": "help", "groups": library.read_help_groups(), "name": name}
