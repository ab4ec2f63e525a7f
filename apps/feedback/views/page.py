"""The rating page: its frame, the held item as a fragment, the guidelines, and the queue's end."""

import hashlib
import json

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template import Context, Engine
from django.views.decorators.cache import never_cache
from django.views.decorators.http import etag, require_POST, require_safe

from apps.accounts.models import Project, User
from apps.accounts.rating_keys import by_form, keys_by_action
from apps.accounts.requests import SignedInRequest, is_signed_in
from apps.feedback.claiming import (
    UNCONFIRMED_LEASE_S,
    HeldItem,
    WaitingCount,
    claim,
    take_again,
    waiting_for,
)
from apps.feedback.claiming_ahead import limit_by_run
from apps.feedback.forms import FORMS
from apps.feedback.item_display import show_item
from apps.feedback.models import Rating, Slot
from apps.feedback.own_work import known_answers_met, load_decisions_today, load_own_effect
from apps.feedback.ratings.withdrawal import withdrawn_ratings
from apps.feedback.reasons import FLAGS, SKIPS
from apps.runs.models import Run
from apps.runs.run_in_query import find_run_in_query, read_run_id

MAX_BIGINT = 2**63 - 1
MAX_RETURNED = 20
MAX_CONCURRENT = 3
MAX_COUNTED = 100  # open items; the badge shows 99+ from there
# with an answer that holds no item: what waits, so that the page knows when to ask for its end
# again
WAITING = "X-Waiting"


@require_safe
@login_required
@never_cache
def show_rating_page(request: SignedInRequest) -> HttpResponse:
    """Show the frame of the rating page, for any signed-in user.

    The page's script fetches what waits, of `?run=` if given. `?again=` are slots that the person
    holds, which it shows first.
    """
    run = _run(request)
    chosen = request.user.rating_keys
    context = {
        "section": "rate",
        "run": run,
        "keys": keys_by_action(chosen),
        "keys_json": json.dumps(by_form(chosen)),
        "today": load_decisions_today(request.user),
        "gold_counts": known_answers_met(request.user),
        "flags": FLAGS,
        "skips": SKIPS,
        "again": ",".join(map(str, _numbers(request, "again")[:MAX_CONCURRENT])),
    }
    return render(request, "feedback/rate.html", context)


@require_POST
@never_cache
def next_items(request: HttpRequest) -> HttpResponse:
    """Claim and render up to `count` items, the most urgent first, for any signed-in user.

    Answers 204 when none waits or the user holds as many as allowed. `ready` are the slots that
    the page holds already, first the one that it shows; with it, fewer are claimed while few wait,
    so that others get some too. `again` are slots that the user holds already, from a page that was
    reloaded; those still or again theirs come first and in this order, each with the person's
    withdrawn rating of it. `fences`, one for each, are those under which that page held them, so
    that what another window claimed meanwhile stays there.
    """
    if not is_signed_in(request):
        return JsonResponse({"detail": "You are signed out."}, status=401)
    # The claim itself checks that the run exists and asks this person: no query before it.
    run = _run_id(request)
    count = min(MAX_CONCURRENT, next(iter(_numbers(request, "count")), 1))
    ready = _numbers(request, "ready")
    again = _numbers(request, "again")[:MAX_CONCURRENT]
    fences = _numbers(request, "fences")[:MAX_CONCURRENT] or None
    if fences and len(fences) != len(again):
        raise Http404("fences: give one for each slot in again")
    user = request.user
    held_items = take_again(user, again, fences, run) if again else []
    missing = count - len(held_items)
    if missing > 0:
        limits = None
        if "ready" in request.GET:
            on_page = [*ready, *(held_item.slot_id for held_item in held_items)]
            limits = limit_by_run(user, run, missing, on_page)
        held_items += claim(user, run, missing, UNCONFIRMED_LEASE_S, limits)
    held_items.sort(
        key=lambda held_item: (
            again.index(held_item.slot_id) if held_item.slot_id in again else len(again)
        )
    )
    if not held_items and ready:
        return HttpResponse(status=204)
    if not held_items:
        return HttpResponse(status=204, headers={WAITING: _digest(_waiting(user, run))})
    before = (
        withdrawn_ratings(user, {held_item.item_id for held_item in held_items}) if again else {}
    )
    return HttpResponse(
        "".join(
            _render_with_rating(user, held_item, before.get(held_item.item_id))
            for held_item in held_items
        )
    )


def _render_with_rating(user: User, held_item: HeldItem, before: Rating | None) -> str:
    """Render the item, with the person's withdrawn rating of it, if any."""
    if before is None or before.form != held_item.form:
        return _render_item(user, held_item)
    return _render_item(user, held_item, before.answer, before.critique)


def _waiting(user: User, run: int | None) -> tuple[WaitingCount, WaitingCount]:
    """Count what waits for this person: of this run if one is given, and of all."""
    everywhere = waiting_for(user, MAX_COUNTED)
    return waiting_for(user, MAX_COUNTED, run) if run else everywhere, everywhere


def _bounded(count: int) -> str:
    """Format a count as the badge does."""
    return f"{MAX_COUNTED - 1}+" if count >= MAX_COUNTED else str(count or "")


def _digest(waiting: tuple[WaitingCount, WaitingCount]) -> str:
    return " ".join(f"{counts.open}+{counts.held}" for counts in waiting)


def item(
    user: User, held_item: HeldItem, answer: dict | None = None, critique: str = ""
) -> HttpResponse:
    """Render the item as its rater sees it, with the answer of a withdrawn decision."""
    return HttpResponse(_render_item(user, held_item, answer, critique))


def _render_item(
    user: User, held_item: HeldItem, answer: dict | None = None, critique: str = ""
) -> str:
    context = {"shown": show_item(user, held_item, answer, critique)}
    template = Engine.get_default().get_template("feedback/item/item.html")
    return template.render(Context(context))


@require_safe
@login_required
@etag(lambda _request, form: _script_tag(form))
def form_script(_request: HttpRequest, form: str) -> HttpResponse:
    """Send the script of a rating form to any signed-in user."""
    answer = HttpResponse(FORMS[form].script, content_type="text/javascript; charset=utf-8")
    answer["Cache-Control"] = "private, no-cache"  # asked for again: a plugin may have changed
    return answer


def _script_tag(name: str) -> str:
    if name not in FORMS:
        raise Http404("no rating form has this name")
    return f'"{hashlib.sha256(FORMS[name].script.encode()).hexdigest()[:32]}"'


@require_safe
@login_required
@never_cache
def queue_end(request: SignedInRequest) -> HttpResponse:
    """Show the effect of a signed-in user's own ratings when nothing waits.

    They are those of `?run=`, or of the run rated last.
    """
    run = _run(request)
    asking = Run.objects.visible_to(request.user).running().filter(config__people__per_group__gt=0)
    asking = asking.filter(pk=run.pk) if run else asking
    in_shown_run, in_all_runs = _waiting(request.user, run.pk if run else None)
    context = {
        "work": load_own_effect(request.user, run),
        "asking": asking.select_related("project").first(),
        "run": run,
        "may_run": Project.objects.run_by(request.user).current().exists(),
        "elsewhere": _held_elsewhere(request, run),
        "waiting": in_shown_run.open,
        "in_other_runs": in_all_runs.count - in_shown_run.count,
        "held_in_other_runs": in_all_runs.held - in_shown_run.held,
        "badge": _bounded(in_all_runs.count),
        "digest": _digest((in_shown_run, in_all_runs)),
    }
    return render(request, "feedback/_end.html", context)


@require_safe
@login_required
def guidelines(request: SignedInRequest, run: int) -> HttpResponse:
    """Show the raters' guidelines of a run, for users who see the run."""
    visible_run = get_object_or_404(Run.objects.visible_to(request.user), pk=run)
    return render(
        request,
        "feedback/_guidelines.html",
        {"run": visible_run, "guidelines": visible_run.settings.people.guidelines},
    )


def _held_elsewhere(request: SignedInRequest, run: Run | None) -> list[int]:
    """Return the slots that the person holds in another window, or in one that was closed."""
    held_slots = Slot.objects.leased().filter(rater=request.user, state="held")
    held_slots = held_slots.filter(run=run) if run else held_slots
    held_slots = held_slots.exclude(pk__in=_numbers(request, "holding"))
    return list(held_slots.order_by("held_at").values_list("pk", flat=True)[:MAX_RETURNED])


def _run(request: SignedInRequest) -> Run | None:
    """Return the run of `?run=`. Raises Http404 for one that this person does not see."""
    name = request.GET.get("run", "")
    return find_run_in_query(Run.objects.visible_to(request.user), name) if name else None


def _run_id(request: SignedInRequest) -> int | None:
    """Return the id of the run of `?run=`; only a name is looked up."""
    number = read_run_id(request.GET.get("run", ""))
    if number is not None:
        return number
    run = _run(request)
    return run.pk if run else None


def _numbers(request: HttpRequest, name: str) -> list[int]:
    parts = [part for part in request.GET.get(name, "").split(",") if part]
    if len(parts) > MAX_RETURNED or not all(
        part.isascii() and part.isdigit() and int(part) <= MAX_BIGINT for part in parts
    ):
        raise Http404(f"{name} must be at most {MAX_RETURNED} numbers separated by commas")
    return [int(part) for part in parts]
