"""Chat with a weight version: an explorer writes the answers while the page is polled."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Mod, Now
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.views.weights import get_version
from apps.rollouts.models import Chat, ChatTurn
from apps.rollouts.models.chats import COLDEST, MAX_TEXT_LENGTH, MAX_TOKENS
from apps.runs.control_plane import duration
from apps.runs.models import NotPossible, Run, WeightVersion, Worker

TEMPERATURE = 0.7
TOKENS = 256
CHATS_SHOWN = 12
VERSIONS_SHOWN = 12
FOR_GOOD_SHOWN = 24
SLOW_S = 5.0  # seconds of waiting before it is explained
HEARTBEAT_S = 15.0  # longest time between heartbeats of a live explorer


class Knobs(forms.Form):
    """The sampling parameters of an answer."""

    temperature = forms.FloatField(min_value=COLDEST, max_value=5)
    max_tokens = forms.IntegerField(min_value=1, max_value=MAX_TOKENS)


class Question(Knobs):
    """A user's message and, at the start of a conversation, its system message."""

    text = forms.CharField(
        max_length=MAX_TEXT_LENGTH, strip=False, error_messages={"required": "Enter a message."}
    )
    system = forms.CharField(max_length=MAX_TEXT_LENGTH, required=False)

    def clean_text(self) -> str:
        if not self.cleaned_data["text"].strip():
            raise forms.ValidationError("Enter a message.")
        return self.cleaned_data["text"]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def chat(request: SignedInRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Owners and researchers of the project: a conversation (`?chat=`, else a new one).

    A POST sends a message.
    """
    run = steered_run(request, project, slug)
    chat_version = get_version(run, version)
    talk = _talk(request, chat_version, request.GET.get("chat") or request.POST.get("chat"))
    form = Question(request.POST) if request.method == "POST" else None
    status = 200
    if form is not None:
        if form.is_valid():
            try:
                return _redirect_to_chat(
                    run, chat_version, _add_message(request, chat_version, talk, form.cleaned_data)
                )
            except NotPossible as error:
                form.add_error("text", f"{error}.".capitalize())
        status = 422
    return render(
        request, "dashboard/chat.html", _page(request, run, chat_version, talk, form), status=status
    )


@require_safe
@login_required
def chat_now(
    request: SignedInRequest, project: str, slug: str, version: int, pk: int
) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the conversation."""
    run = steered_run(request, project, slug)
    chat_version = get_version(run, version)
    talk = get_object_or_404(_own_chats(request, chat_version), pk=pk)
    return render(
        request,
        "dashboard/_chat_now.html",
        {"run": run, "version": chat_version, "chat": talk, **build_chat_turns(talk)},
    )


@require_POST
@login_required
def chat_act(
    request: SignedInRequest, project: str, slug: str, version: int, pk: int, verb: str
) -> HttpResponse:
    """Owners and researchers of the project: stop the running answer, or repeat the last one."""
    run = steered_run(request, project, slug)
    chat_version = get_version(run, version)
    talk = get_object_or_404(_own_chats(request, chat_version), pk=pk)
    last = talk.current_turns.last()
    if verb == "stop" and last is not None:
        last.wish_to_stop()
    elif verb == "again" and last is not None:
        try:
            talk.ask_again(last.temperature, last.max_tokens)
        except NotPossible as error:
            messages.error(request, f"{error}.".capitalize())
    return _redirect_to_chat(run, chat_version, talk)


def _own_chats(request: SignedInRequest, version: WeightVersion) -> QuerySet[Chat]:
    """Return the user's own conversations; nobody else may see them."""
    return version.chats.filter(by=request.user, comparison=None)


def _talk(request: SignedInRequest, version: WeightVersion, chat_id: str | None) -> Chat | None:
    """Return the named conversation; None begins a new one. Raise Http404."""
    if not chat_id:
        return None
    is_number = chat_id.isascii() and chat_id.isdigit() and len(chat_id) < 19
    return get_object_or_404(_own_chats(request, version), pk=int(chat_id) if is_number else 0)


@transaction.atomic
def _add_message(
    request: SignedInRequest, version: WeightVersion, talk: Chat | None, data: dict
) -> Chat:
    """Add the user's message, to a new conversation if there is none. Raise NotPossible."""
    talk = talk or Chat.objects.create(
        weight_version=version, by=request.user, system=data["system"].strip()
    )
    talk.ask([{"role": "user", "content": data["text"]}], data["temperature"], data["max_tokens"])
    return talk


def _redirect_to_chat(run: Run, version: WeightVersion, talk: Chat) -> HttpResponseRedirect:
    address = reverse("run-weight-chat", args=[run.project.slug, run.slug, version.version])
    return redirect(f"{address}?chat={talk.pk}#say")


def _page(
    request: SignedInRequest,
    run: Run,
    version: WeightVersion,
    talk: Chat | None,
    form: Question | None,
) -> dict:
    turns_context: dict[str, Any] = (
        build_chat_turns(talk) if talk else {"turns": [], "is_open": False}
    )
    last = turns_context["turns"][-1]["turn"] if turns_context["turns"] else None
    knobs = (
        form.data
        if form is not None
        else {
            "temperature": f"{last.temperature:g}" if last else f"{TEMPERATURE:g}",
            "max_tokens": last.max_tokens if last else TOKENS,
        }
    )
    first = {
        turn.chat_id: turn
        for turn in ChatTurn.objects.filter(chat__in=_newest(request, version), number=0)
    }
    return {
        "section": "runs",
        "run": run,
        "version": version,
        "chat": talk,
        **turns_context,
        "form": form,
        "knobs": knobs,
        "others": _offered_versions(run, version),
        "max_length": MAX_TEXT_LENGTH,
        "coldest": COLDEST,
        "max_tokens": MAX_TOKENS,
        "earlier": [
            (earlier_chat, first[earlier_chat.pk].prompt[-1]["content"])
            for earlier_chat in _newest(request, version)
            if earlier_chat.pk in first
        ],
    }


def _offered_versions(run: Run, version: WeightVersion) -> list[WeightVersion]:
    """Return versions to chat with whose folders exist.

    These are the newest, milestones and pinned ones, the base, and this one.
    """
    available = run.weight_versions.filter(
        state__in=(WeightVersion.State.PUBLISHED, WeightVersion.State.VERIFIED)
    )
    newest = list(available[:VERSIONS_SHOWN])
    every = run.settings.checkpoints.milestones
    for_good = Q(pinned_at__isnull=False) | (Q(after=0) if every else Q())
    older = available.annotate(after=Mod("version", every or 1)).filter(for_good, version__gt=0)[
        :FOR_GOOD_SHOWN
    ]
    base_and_current = available.filter(version__in=(0, version.version))
    return sorted(
        {candidate.pk: candidate for candidate in (*newest, *older, *base_and_current)}.values(),
        key=lambda candidate: -candidate.version,
    )


def _newest(request: SignedInRequest, version: WeightVersion) -> list[Chat]:
    return list(_own_chats(request, version).order_by("-pk")[:CHATS_SHOWN])


def build_chat_turns(talk: Chat) -> dict:
    """Return the turns with their state as text; `is_open` is whether the last one is not over."""
    turns = list(talk.current_turns.select_related("worker"))
    is_open = bool(turns) and turns[-1].is_open
    rows = [
        {"turn": turn, "question": turn.prompt[-1]["content"], "seconds": turn_seconds(turn)}
        for turn in turns
    ]
    if is_open:
        rows[-1]["waits"] = waiting_words(turns[-1], talk.weight_version, explorer_is_there())
    return {"turns": rows, "is_open": is_open}


def explorer_is_there() -> bool:
    """Tell whether a working explorer has sent a heartbeat lately.

    One that answers, or serves a run, sends it every two seconds.
    """
    recent = Now() - timedelta(seconds=HEARTBEAT_S)
    explorers = Worker.objects.filter(
        role=Worker.Role.EXPLORER, stopped_at=None, order=Worker.Order.SERVE
    )
    return explorers.filter(heartbeat_at__gte=recent).exists()


def waiting_words(
    turn: ChatTurn, version: WeightVersion | None, is_served: bool
) -> tuple[str, str]:
    """Return what an open answer waits for, and what to do about it ("": nothing).

    `version`: None where a model itself is asked. `is_served`: there is a working explorer.
    """
    if turn.state == ChatTurn.State.WRITING:
        return "", ""
    if turn.state == ChatTurn.State.LOADING:
        return f"loading {f'v{version.version}' if version else 'the model'} into an engine", ""
    if (timezone.now() - turn.requested_at).total_seconds() < SLOW_S:
        return "waiting for an engine", ""
    if is_served:
        waited = duration((timezone.now() - turn.requested_at).total_seconds())
        return (
            f"waiting for its turn for {waited}",
            "All engines are busy with runs. Your chat starts when one has finished its replies.",
        )
    return (
        "no explorer is running",
        (
            "Start one: manage.py up starts all workers, celery -A rftweb worker -Q explore one"
            " explorer."
        ),
    )


def turn_seconds(turn: ChatTurn) -> float | None:
    """Return the seconds from the first token to the end, if known."""
    return (
        (turn.ended_at - turn.begun_at).total_seconds() if turn.ended_at and turn.begun_at else None
    )
