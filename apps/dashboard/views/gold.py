"""Gold items, whose right answer is known: list with results, creation, and retirement."""

from collections.abc import Sequence

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.answers import answer_in
from apps.dashboard.paging import load_page
from apps.dashboard.preview import held_over
from apps.feedback import known_items
from apps.feedback.answer_texts import describe_answer, rating_in_words
from apps.feedback.forms import BadAnswer
from apps.feedback.item_display import show_item
from apps.feedback.models import Item, Rating
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES, WORDS_ONLY

NEWEST = 12
MAX_ROLLOUTS = 64
EXCERPT = 160


class GoldForm(forms.Form):
    purpose = forms.ChoiceField(
        choices=[
            ("gold", "gold item"),
            ("attention", "attention check"),
            ("norming", "norming item"),
        ],
        initial="gold",
        required=False,
    )
    explanation = forms.CharField(required=False, strip=False)


@require_safe
@login_required
def gold_items(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: raters must not see which items are gold."""
    run = steered_run(request, project, slug)
    page = load_page(known_items.known_items(run), request, size=25)
    texts = _texts(run, page.rows)
    rows = [
        {
            "gold": answered,
            "expected": _expected(answered.item),
            "text": texts.get(answered.item.pk, ""),
        }
        for answered in known_items.count_known_answers(run, page.rows)
    ]
    context = {
        "section": "runs",
        "run": run,
        "plan": run.settings.people,
        "page": page,
        "rows": rows,
        "newest": _newest(run),
        "is_comparing": run.settings.people.form in COMPARES,
        "has_numbers": _has_numbers(run),
    }
    return render(request, "dashboard/gold.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new_gold(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: create a gold item for `?rollout=1&rollout=2`.

    The right answer is given as a rater would give it.
    """
    run = steered_run(request, project, slug)
    if not (numbers := _numbers(request)):
        messages.error(request, "Choose a reply below.")
        return redirect("run-gold", project, slug)
    try:
        rollouts = known_items.candidates(run, numbers)
    except BadAnswer as bad:
        messages.error(request, "; ".join(bad.problems.values()).capitalize() + ".")
        return redirect("run-gold", project, slug)
    form = GoldForm(request.POST or None)
    wrong: dict[str, str] = {}
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        raw = answer_in(
            run.settings.people.form, request.POST, [rollout.pk for rollout in rollouts]
        )
        try:
            item = known_items.create_known_item(
                run,
                rollouts,
                data["purpose"] or "gold",
                raw,
                data["explanation"].strip(),
                request.user,
            )
        except BadAnswer as bad:
            wrong = bad.problems
        else:
            messages.success(
                request,
                (f"{item.get_purpose_display().capitalize()} created. Raters get it from now on."),
            )
            return redirect("run-gold", project, slug)
    shown_item = show_item(request.user, held_over(run, run.settings.people, rollouts))
    context = {
        "section": "runs",
        "run": run,
        "shown": shown_item,
        "held": shown_item.held,
        "form": form,
        "wrong": wrong,
        "has_numbers": _has_numbers(run),
        "rollouts": rollouts,
    }
    return render(request, "dashboard/gold_new.html", context, status=422 if wrong else 200)


@require_POST
@login_required
def retire_gold(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: stop using this item; its answers stay."""
    run = steered_run(request, project, slug)
    item = get_object_or_404(known_items.known_items(run), pk=pk)
    known_items.retire_known_item(item, request.user)
    messages.success(request, "Gold item retired. Past answers are kept.")
    return redirect("run-gold", project, slug)


def _has_numbers(run: Run) -> bool:
    return run.settings.people.form not in WORDS_ONLY


def _numbers(request: SignedInRequest) -> list[int]:
    numbers = request.GET.getlist("rollout")
    if len(numbers) > MAX_ROLLOUTS or not all(
        text.isascii() and text.isdigit() and len(text) < 18 for text in numbers
    ):
        raise Http404(f"rollout must be at most {MAX_ROLLOUTS} numbers")
    return [int(text) for text in numbers]


def _expected(item: Item) -> str:
    """Return the right answer in words; every gold item has one."""
    assert item.expected is not None
    return describe_answer(item.form, item.expected, item.members)


def _texts(run: Run, items: Sequence[Item]) -> dict[int, str]:
    """Return the beginning of each item's first reply."""
    first = {item.members[0]: item.pk for item in items}
    texts = Rollout.objects.filter(run=run, pk__in=first).values_list("pk", "text")
    return {first[pk]: text[:EXCERPT] for pk, text in texts}


def _newest(run: Run) -> list[dict]:
    """Return replies that were rated, the newest first: the usual source of gold items."""
    rated = (
        Rating.objects.counting()
        .filter(run=run)
        .exclude(form="flag")
        .select_related("rollout")
        .order_by("-pk")[:NEWEST]
    )
    rows = []
    for rating in rated:
        rows.append(
            {"rating": rating, "answer": rating_in_words(rating), "members": rating.members}
        )
    return rows
