"""The page of one decision at a time: its frame, the item in hand as a fragment, the guidelines, and the end of the queue."""

import json

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template import Context
from django.template.loader import get_template
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.rating_keys import by_form, keys_of
from apps.feedback.claiming import Held, Waiting, claim, take_again, waiting_for
from apps.feedback.models import Arena
from apps.feedback.own_work import known_answers_met, shaped_by, today_of
from apps.feedback.reasons import FLAGS, SKIPS
from apps.feedback.showing import shown_to
from apps.runs.models import Run

LARGEST = 2**63 - 1
MOST_AGAIN = 20
MOST_AT_ONCE = 3
MOST_COUNTED = 100  # open items; the badge shows 99+ from there
WAITING = "X-Waiting"  # with an answer that holds no item: what waits, so that the page knows when to ask for its end again


@require_safe
@login_required
@never_cache
@gzip_page
def rate(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the frame of the page; what waits, of `?run=` if given, is fetched by its script."""
    run = _run(request)
    chosen = request.user.rating_keys
    context = {
        "section": "rate", "run": run, "keys": keys_of(chosen), "keys_json": json.dumps(by_form(chosen)),
        "today": today_of(request.user), "known": known_answers_met(request.user), "flags": FLAGS, "skips": SKIPS,
        "csrf_cookie": settings.CSRF_COOKIE_NAME, "arenas": _arenas(request),
    }  # fmt: skip
    return render(request, "feedback/rate.html", context)


@require_POST
@never_cache
@gzip_page
def next_items(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: up to `count` items, the most urgent first, now in their hands; 204 when none waits or hands are full.

    `again`: slots the person holds already, from a page that was loaded anew; those that are theirs still, or anew,
    come first and in this order. `fences`, one for each: those under which that page held them, so that what another window
    took meanwhile stays there.
    """
    if not request.user.is_authenticated:
        return JsonResponse({"detail": "You are signed out."}, status=401)
    # Whether the run is there and asks this person is a condition of the claim itself: no question before it.
    run, count = next(iter(_numbers(request, "run")), None), min(MOST_AT_ONCE, next(iter(_numbers(request, "count")), 1))
    again = _numbers(request, "again")[:MOST_AT_ONCE]
    fences = _numbers(request, "fences")[:MOST_AT_ONCE] or None
    if fences and len(fences) != len(again):
        raise Http404("fences: one for each slot of again")
    held = take_again(request.user, again, fences, run) if again else []
    if len(held) < count:
        held += claim(request.user, run, count - len(held))
    held.sort(key=lambda one: again.index(one.slot_id) if one.slot_id in again else len(again))
    if not held:
        return HttpResponse(status=204, headers={WAITING: _digest(_waiting(request, run))})
    return HttpResponse("".join(_drawn(request, one) for one in held))


def _waiting(request: HttpRequest, run: int | None) -> tuple[Waiting, Waiting]:
    """Count what waits for this person: of this run if one is given, and of all."""
    everywhere = waiting_for(request.user, MOST_COUNTED)
    return waiting_for(request.user, MOST_COUNTED, run) if run else everywhere, everywhere


def _bounded(count: int) -> str:
    """Show a count as the badge does."""
    return f"{MOST_COUNTED - 1}+" if count >= MOST_COUNTED else str(count or "")


def _digest(waiting: tuple[Waiting, Waiting]) -> str:
    return " ".join(f"{here.open}+{here.held}" for here in waiting)


def item(request: HttpRequest, held: Held, answer: dict | None = None, critique: str = "") -> HttpResponse:
    """The item as its rater sees it; with what was said before, when that was taken back."""
    return HttpResponse(_drawn(request, held, answer, critique))


def _drawn(request: HttpRequest, held: Held, answer: dict | None = None, critique: str = "") -> str:
    context = {"shown": shown_to(request.user, held, answer, critique)}
    return get_template("feedback/item/item.html").template.render(Context(context))


@require_safe
@login_required
@never_cache
def queue_end(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: what their own ratings did, of `?run=` or of the run they rated last; told when nothing waits."""
    run = _run(request)
    asking = Run.objects.visible_to(request.user).running().filter(config__people__per_group__gt=0)
    asking = asking.filter(pk=run.pk) if run else asking
    here, everywhere = _waiting(request, run.pk if run else None)
    context = {
        "work": shaped_by(request.user, run),
        "asking": asking.select_related("project").first(),
        "run": run,
        "elsewhere": _held_elsewhere(request, run),
        "waiting": here.open,
        "in_other_runs": everywhere.count - here.count,
        "held_in_other_runs": everywhere.held - here.held,
        "badge": _bounded(everywhere.count),
        "digest": _digest((here, everywhere)),
        "arenas": _arenas(request),
    }
    return render(request, "feedback/_end.html", context)


@require_safe
@login_required
def guidelines(request: HttpRequest, run: int) -> HttpResponse:
    """Those who see the run: what its raters should go by."""
    found = get_object_or_404(Run.objects.visible_to(request.user), pk=run)
    return render(request, "feedback/_guidelines.html", {"run": found, "guidelines": found.settings.people.guidelines})


def _arenas(request: HttpRequest) -> int:
    """How many open arenas this person may judge in."""
    return Arena.objects.judged_by(request.user).open().count()


def _held_elsewhere(request: HttpRequest, run: Run | None) -> list[int]:
    """What the person holds that this page does not know of: another window's, or one that was closed without a word."""
    held = request.user.slots.filter(state="held", lease_until__gt=Now())
    held = held.filter(run=run) if run else held
    held = held.exclude(pk__in=_numbers(request, "holding"))
    return list(held.order_by("held_at").values_list("pk", flat=True)[:MOST_AGAIN])


def _run(request: HttpRequest) -> Run | None:
    """The run of `?run=`. Raises Http404 for one that this person does not see."""
    numbers = _numbers(request, "run")
    return get_object_or_404(Run.objects.visible_to(request.user), pk=numbers[0]) if numbers else None


def _numbers(request: HttpRequest, name: str) -> list[int]:
    parts = [part for part in request.GET.get(name, "").split(",") if part]
    if len(parts) > MOST_AGAIN or not all(part.isascii() and part.isdigit() and int(part) <= LARGEST for part in parts):
        raise Http404(f"{name} must be numbers with commas between, at most {MOST_AGAIN}")
    return [int(part) for part in parts]
