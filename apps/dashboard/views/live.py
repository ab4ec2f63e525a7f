"""The live wall: rollouts as they are sampled.

Text comes over the socket; everything structured is a fragment from here.
"""

from django.contrib.auth.decorators import login_required
from django.db.models import F, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.rollout_rows import build_rollout_rows, own_stars, with_judgements
from apps.feedback.interventions import runs_steered_by
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.raters import rated_by, takes_open_stars
from apps.runs.run_in_query import find_run_in_query

CARDS = 24
RUNS_OFFERED = 8


@require_safe
@login_required
def show_live_wall(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the wall of their projects' latest rollouts, or those of `?run=`."""
    under_way = Run.objects.visible_to(request.user).filter(
        state__in=[Run.State.RUNNING, Run.State.PAUSED]
    )
    offered = list(
        under_way.select_related("project").order_by(F("explored_at").desc(nulls_last=True), "-pk")[
            :RUNS_OFFERED
        ]
    )
    chosen = _chosen_run(request)
    runs = [chosen] if chosen else offered
    offered += [] if chosen is None or chosen in offered else [chosen]
    newest = Rollout.objects.without_anchors().newest_of_each(runs, CARDS)
    cards = _cards(request, Rollout.objects.filter(pk__in=newest).order_by("pk"))
    context = {
        "section": "live",
        "runs": offered,
        "chosen": chosen,
        "cards": cards,
        "max_cards": CARDS,
        "over": _all_over_message(runs),
    }
    return render(request, "dashboard/live.html", context)


@require_safe
@login_required
def show_live_cards(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the cards of `?rollout=1&rollout=2`, of those rollouts they may see."""
    return render(
        request, "dashboard/_cards.html", {"cards": _cards(request, _requested_rollouts(request))}
    )


@require_safe
@login_required
def chips(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the rewards so far of `?rollout=1&rollout=2`, for cards on the wall."""
    return render(
        request,
        "dashboard/_card_chips.html",
        {"cards": _cards(request, _requested_rollouts(request))},
    )


@require_safe
@login_required
def over(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: whether all runs of `?topic=1&topic=2` are over, for an open wall."""
    topics = [_id(number) for number in request.GET.getlist("topic")[:RUNS_OFFERED]]
    runs = list(Run.objects.visible_to(request.user).filter(topic__in=topics).order_by("-pk"))
    return render(request, "dashboard/_wall_over.html", {"over": _all_over_message(runs)})


def _all_over_message(runs: list[Run]) -> str:
    """Return a note if none of these runs streams replies; "" if one does, or without runs."""
    if not runs or any(run.state == Run.State.RUNNING for run in runs):
        return ""
    states = ", ".join(f"{run.slug} is {run.get_state_display()}" for run in runs)
    return f"No live replies: {states}."


def _chosen_run(request: SignedInRequest) -> Run | None:
    name = request.GET.get("run", "")
    visible_runs = Run.objects.visible_to(request.user).select_related("project")
    return find_run_in_query(visible_runs, name) if name else None


def _requested_rollouts(request: SignedInRequest) -> QuerySet[Rollout]:
    return (
        Rollout.objects.visible_to(request.user)
        .without_anchors()
        .filter(pk__in=_requested_ids(request))
        .order_by("pk")
    )


def _requested_ids(request: SignedInRequest) -> list[int]:
    """Return at most as many ids as the wall has cards. Raise Http404 for an invalid id."""
    numbers = request.GET.getlist("rollout")
    if len(numbers) > CARDS:
        raise Http404(f"at most {CARDS} rollouts at once")
    return [_id(number) for number in numbers]


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404("an id must be a number")
    return int(text)


def _cards(request: SignedInRequest, rollouts: QuerySet[Rollout]) -> list[dict]:
    """Return the cards with the user's stars and permissions, in a fixed number of queries."""
    cards = build_rollout_rows(with_judgements(rollouts), request.user)
    card_rollouts = [card["rollout"] for card in cards]
    stars_by_rollout = own_stars(card_rollouts, request.user)
    steered = runs_steered_by(
        request.user, {rollout.run_id: rollout.run for rollout in card_rollouts}.values()
    )
    runs = rated_by(request.user).filter(takes_open_stars())
    ratable = set(
        runs.filter(pk__in={rollout.run_id for rollout in card_rollouts}).values_list(
            "pk", flat=True
        )
    )
    return [
        {
            **card,
            "stars": stars_by_rollout.get(card["rollout"].pk),
            "may_act": card["rollout"].run_id in steered,
            "may_rate": card["rollout"].run_id in ratable,
        }
        for card in cards
    ]
