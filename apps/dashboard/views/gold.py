"""Items whose right answer is known: listed with how they were met, made from the run's own replies, retired."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.dashboard.access import steered_run
from apps.dashboard.answers import answer_in
from apps.dashboard.paging import page_of
from apps.dashboard.preview import held_over
from apps.feedback import gold
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Item, Rating
from apps.feedback.saying import in_words, rating_in_words
from apps.feedback.showing import shown_to
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES, WORDS_ONLY

NEWEST = 12
MOST = 64
EXCERPT = 160


class GoldForm(forms.Form):
    purpose = forms.ChoiceField(choices=[("gold", "gold item"), ("attention", "attention check")], initial="gold", required=False)
    explanation = forms.CharField(required=False, strip=False)


@require_safe
@login_required
def gold_items(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: raters must not see which items are gold."""
    run = steered_run(request, project, slug)
    page = page_of(gold.known_items(run), request, size=25)
    texts = _texts(run, page.rows)
    rows = [
        {
            "known": known,
            "said": in_words(known.item.form, known.item.expected, known.item.members),
            "text": texts.get(known.item.pk, ""),
        }
        for known in gold.answered(run, page.rows)
    ]
    context = {
        "section": "runs", "tab": "gold", "run": run, "plan": run.settings.people, "page": page, "rows": rows,
        "newest": _newest(run), "is_comparing": run.settings.people.form in COMPARES, "has_numbers": _has_numbers(run),
    }  # fmt: skip
    return render(request, "dashboard/gold.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new_gold(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the right answer to `?rollout=1&rollout=2`, given as a rater would give it."""
    run = steered_run(request, project, slug)
    try:
        rollouts = gold.candidates(run, _numbers(request))
    except BadAnswer as bad:
        messages.error(request, "; ".join(bad.problems.values()).capitalize() + ".")
        return redirect("run-gold", project, slug)
    form = GoldForm(request.POST or None)
    wrong: dict[str, str] = {}
    if request.method == "POST" and form.is_valid():
        data, raw = form.cleaned_data, answer_in(run.settings.people.form, request.POST, [rollout.pk for rollout in rollouts])
        try:
            item = gold.make(run, rollouts, data["purpose"] or "gold", raw, data["explanation"].strip(), request.user)
        except BadAnswer as bad:
            wrong = bad.problems
        else:
            messages.success(request, f"{item.get_purpose_display().capitalize()}: it is mixed in from now on.")
            return redirect("run-gold", project, slug)
    shown = shown_to(request.user, held_over(run, run.settings.people, rollouts))
    context = {
        "section": "runs", "tab": "gold", "run": run, "shown": shown, "held": shown.held, "form": form, "wrong": wrong,
        "has_numbers": _has_numbers(run), "rollouts": rollouts,
    }  # fmt: skip
    return render(request, "dashboard/gold_new.html", context, status=422 if wrong else 200)


@require_POST
@login_required
def retire_gold(request: HttpRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: ask nobody this item any more; the answers to it stay."""
    run = steered_run(request, project, slug)
    item = get_object_or_404(gold.known_items(run), pk=pk)
    gold.retire(item, request.user)
    messages.success(request, "Retired: nobody is asked it any more; what was answered stays.")
    return redirect("run-gold", project, slug)


def _has_numbers(run: Run) -> bool:
    return run.settings.people.form not in WORDS_ONLY


def _numbers(request: HttpRequest) -> list[int]:
    found = request.GET.getlist("rollout")
    if len(found) > MOST or not all(text.isascii() and text.isdigit() and len(text) < 18 for text in found):
        raise Http404(f"rollout must be numbers, at most {MOST}")
    return [int(text) for text in found]


def _texts(run: Run, items: list[Item]) -> dict[int, str]:
    """How the first reply of each item begins."""
    first = {item.members[0]: item.pk for item in items}
    said = Rollout.objects.filter(run=run, pk__in=first).values_list("pk", "text")
    return {first[pk]: text[:EXCERPT] for pk, text in said}


def _newest(run: Run) -> list[dict]:
    """Replies that somebody has judged, the newest first: what a gold item is usually made from."""
    rated = Rating.objects.counting().filter(run=run).exclude(form="flag").select_related("rollout").order_by("-pk")[:NEWEST]
    rows = []
    for rating in rated:
        rows.append({"rating": rating, "said": rating_in_words(rating), "members": rating.members})
    return rows
