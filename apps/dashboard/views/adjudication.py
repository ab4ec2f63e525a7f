"""Disagreements between raters: all votes side by side, and one action that settles an item."""

import uuid

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.answers import answer_in
from apps.dashboard.preview import held_over
from apps.feedback.answer_texts import LETTERS, describe_answer
from apps.feedback.forms import FORMS, BadAnswer
from apps.feedback.item_display import ShownItem, show_item
from apps.feedback.models import Adjudication, Item
from apps.feedback.quality.decisions import Decision, list_item_decisions, newest_decisions
from apps.feedback.quality.disputes import load_disputed_items, open_disputes, widest_range
from apps.feedback.ratings.adjudication import adjudicate
from apps.feedback.ratings.answers import Refused
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import WORDS_ONLY, People

AT_ONCE = 8  # disputes on a page; settled ones make room for the next
SETTLED = 20


class SettleForm(forms.Form):
    """The settling of an item.

    `vote` is the rating whose answer is adopted; without it the answer comes from the fields of the
    item's form.
    """

    vote = forms.IntegerField(required=False, min_value=1)
    client_uuid = forms.UUIDField()
    critique = forms.CharField(required=False, strip=False)
    explanation = forms.CharField(required=False, strip=False)
    gold = forms.BooleanField(required=False)


@require_safe
@login_required
def show_disputes(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: disputed items, the widest disagreement first."""
    run = steered_run(request, project, slug)
    people = run.settings.people
    disputes = open_disputes(run, newest_decisions(run))
    page_disputes = disputes[:AT_ONCE]
    items = load_disputed_items(page_disputes)
    texts = _texts([pk for dispute in page_disputes for pk in dispute.votes[0].unit])
    rows = [
        _row(items[page_dispute.item], list(page_dispute.votes), people, texts)
        for page_dispute in page_disputes
    ]
    context = {
        "section": "runs",
        "run": run,
        "rows": rows,
        "count": len(disputes),
        "settled": _settled_disputes(run),
        "overlap": people.overlap,
        "uuid": uuid.uuid4,
    }
    return render(request, "dashboard/disputes.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def dispute(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: one item with all its votes, and settling it."""
    run = steered_run(request, project, slug)
    item = get_object_or_404(Item.objects.select_related("group__task"), pk=pk, run=run)
    votes = list_item_decisions(item)
    form = SettleForm(request.POST or None, initial={"client_uuid": uuid.uuid4()})
    wrong = {}
    if request.method == "POST":
        wrong = _settle(request, item, votes, form)
        if not wrong:
            return redirect("run-adjudicate", project, slug)
    row = _row(item, votes, run.settings.people, _texts(item.members))
    context = {
        "section": "runs",
        "run": run,
        "row": row,
        "item": item,
        "form": form,
        "wrong": wrong,
        "shown": _visible_item(request.user, run, item),
        "may_answer": item.form not in WORDS_ONLY,
        "adjudication": (
            Adjudication.objects.filter(item=item).select_related("rating__rater").first()
        ),
        "may_gold": item.form == run.settings.people.form and item.form not in WORDS_ONLY,
        "uuid": uuid.uuid4,
    }
    return render(request, "dashboard/dispute.html", context, status=422 if wrong else 200)


def _settle(
    request: SignedInRequest, item: Item, votes: list[Decision], form: SettleForm
) -> dict[str, str]:
    """Settle the item as posted; return the errors by field."""
    if not form.is_valid():
        return {field: " ".join(map(str, words)) for field, words in form.errors.items()}
    data = form.cleaned_data
    answer_form = item.form
    raw = answer_in(item.form, request.POST, item.members)
    if data["vote"]:
        chosen_vote = next((vote for vote in votes if vote.rating == data["vote"]), None)
        if chosen_vote is None:
            return {
                "vote": (
                    "This rating was changed or undone in the meantime. Review the item again."
                )
            }
        answer_form = chosen_vote.form
        raw = chosen_vote.in_order
    try:
        settled = adjudicate(
            item.pk,
            request.user,
            answer_form,
            raw,
            data["client_uuid"],
            data["critique"].strip(),
            data["explanation"].strip(),
            data["gold"],
        )
    except BadAnswer as bad:
        return bad.problems
    except Refused as refused:
        return {"client_uuid": str(refused)}
    word = describe_answer(answer_form, settled.adjudication.rating.answer, item.members)
    late = (
        (" The group was already used in training, which doesn’t change.")
        if settled.is_late
        else ""
    )
    gold = " A gold item was created." if settled.is_gold else ""
    messages.success(request, f"Decision saved: {word}.{late}{gold}")
    return {}


def _row(item: Item, votes: list[Decision], people: People, texts: dict[int, str]) -> dict:
    return {
        "item": item,
        "apart": widest_range(votes, people),
        "question": item.group.task.question,
        "prompt": item.group.task.prompt,
        "replies": [
            (LETTERS[n % len(LETTERS)], texts.get(pk, "")) for n, pk in enumerate(item.members)
        ],
        "votes": [
            {
                "vote": vote,
                "answer": describe_answer(vote.form, vote.in_order, item.members),
                "critique": vote.critique,
                "value": _value(vote, people) if len(item.members) == 1 else None,
            }
            for vote in votes
        ],
    }


def _value(vote: Decision, people: People) -> float | None:
    return FORMS[vote.form].values(vote.answer, vote.shown, people).get(vote.shown[0])


def _visible_item(user: User, run: Run, item: Item) -> ShownItem | None:
    """Return the item as a rater would see it; None if its replies were pruned."""
    replies = list(
        Rollout.objects.filter(pk__in=item.members)
        .select_related("group__task", "payload")
        .order_by("pk")
    )
    if len(replies) < len(item.members):
        return None
    return show_item(
        user, held_over(run, run.settings.people.model_copy(update={"form": item.form}), replies)
    )


def _settled_disputes(run: Run) -> list[dict]:
    rows = (
        Adjudication.objects.filter(item__run=run)
        .select_related("item", "rating__rater")
        .order_by("-at")[:SETTLED]
    )
    return [
        {
            "adjudication": row,
            "answer": describe_answer(row.rating.form, row.rating.answer, row.item.members),
        }
        for row in rows
    ]


def _texts(rollouts: list[int]) -> dict[int, str]:
    return dict(Rollout.objects.filter(pk__in=rollouts).values_list("pk", "text"))
