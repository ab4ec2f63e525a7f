"""Two versions of a run side by side: their metrics, and their answers to the same prompts."""

import random
from collections.abc import Iterable, Sequence
from operator import attrgetter

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Max, Min, OuterRef, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard import version_line
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.comparing_evaluations import of_versions
from apps.dashboard.evaluations import EvaluationQuery
from apps.dashboard.views.chatting import (
    TOKENS,
    Knobs,
    explorer_is_there,
    turn_seconds,
    waiting_words,
)
from apps.evaluation.metrics import MEASURES
from apps.rollouts.models import ChatTurn, Comparison
from apps.rollouts.models.chats import COLDEST, MAX_TEXT_LENGTH, MAX_TOKENS
from apps.runs.models import NotPossible, Run, WeightVersion
from apps.tasksets.messages import list_pictures

MAX_PROMPTS = 12
TASKS = 4
BETWEEN = "---"  # the line that separates prompts of several lines
EARLIER_SHOWN = 10
VERSIONS_OFFERED = 60


class Asking(Knobs):
    """The prompts for both versions: typed ones, and tasks of the run.

    Typed prompts are one per line, or blocks separated by a line `---`.
    """

    one = forms.IntegerField(min_value=0)
    other = forms.IntegerField(min_value=0)
    prompts = forms.CharField(max_length=MAX_TEXT_LENGTH, required=False)
    tasks = forms.IntegerField(min_value=0, max_value=MAX_PROMPTS, required=False)

    def clean_prompts(self) -> list[list[dict]]:
        lines = self.cleaned_data["prompts"].splitlines()
        blocks: list[list[str]] = [[]]
        for line in lines:
            if line.strip() == BETWEEN:
                blocks.append([])
            else:
                blocks[-1].append(line)
        prompts = (
            ["\n".join(block).strip() for block in blocks]
            if len(blocks) > 1
            else [line.strip() for line in lines]
        )
        return [[{"role": "user", "content": text}] for text in prompts if text]

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        count = len(data.get("prompts") or []) + (data.get("tasks") or 0)
        if "prompts" in data and not 0 < count <= MAX_PROMPTS:
            raise forms.ValidationError(f"Enter 1 to {MAX_PROMPTS} prompts in total, not {count}.")
        if data.get("one") is not None and data.get("one") == data.get("other"):
            raise forms.ValidationError("Select two different versions.")
        return data


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def compare_versions(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members who do not judge the run blind: `?one=3&other=5` side by side.

    Owners and researchers ask both the same (POST).
    """
    run = (steered_run if request.method == "POST" else seen_run)(request, project, slug)
    if not may_see_judgements(request, run):
        raise PermissionDenied("You rate this run blind, so results of its versions are hidden.")
    form = Asking(request.POST) if request.method == "POST" else None
    if form is not None and form.is_valid():
        try:
            return redirect(
                "run-weights-answers",
                project,
                slug,
                _begin_comparison(request, run, form.cleaned_data).pk,
            )
        except NotPossible as error:
            form.add_error(None, f"{error}.".capitalize())
    return render(
        request,
        "dashboard/weight_compare.html",
        _comparison_context(request, run, form),
        status=422 if form is not None else 200,
    )


def _comparison_context(request: SignedInRequest, run: Run, form: Asking | None) -> dict:
    """Return the context of the comparison of two versions; `form` is a refused one."""
    steers = may_steer(request, run)
    offered = _offered_versions(run)
    data = form.data if form is not None else request.GET
    chosen = [
        _chosen_version(run, data.get(name), offered, place)
        for place, name in enumerate(("one", "other"))
    ]
    existing = [version for version in chosen if version is not None]
    all_exist = len(existing) == len(chosen)
    measured = EvaluationQuery.read(request.GET)
    first_values = {"temperature": f"{COLDEST:g}", "max_tokens": TOKENS, "tasks": TASKS}
    own_comparisons = run.comparisons.filter(by=request.user)
    return {
        "section": "runs",
        "run": run,
        "offered": _with_chosen(offered, chosen),
        "chosen": chosen,
        "form": form,
        "steers": steers,
        "may_ask": steers and all_exist and all(version.has_folder for version in existing),
        "sides": list_version_metrics(chosen),
        "earlier": own_comparisons.select_related("one", "other")[:EARLIER_SHOWN],
        "knobs": first_values if form is None else form.data,
        "beside": of_versions(existing, measured) if all_exist else None,
        "measured": measured,
        "measures": MEASURES,
        "why": MEASURES[measured.measure],
        "coldest": COLDEST,
        "max_tokens": MAX_TOKENS,
        "max_prompts": MAX_PROMPTS,
        "max_length": MAX_TEXT_LENGTH,
    }


@require_safe
@login_required
def compare_version_answers(
    request: SignedInRequest, project: str, slug: str, pk: int
) -> HttpResponse:
    """Owners and researchers of the project: what two versions answered to the same prompts."""
    return render(request, "dashboard/weight_answers.html", _answers(request, project, slug, pk))


@require_safe
@login_required
def answers_now(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the part that moves while they are written."""
    return render(
        request, "dashboard/_weight_answers_now.html", _answers(request, project, slug, pk)
    )


def _answers(request: SignedInRequest, project: str, slug: str, pk: int) -> dict:
    run = steered_run(request, project, slug)
    comparison = get_object_or_404(run.comparisons.select_related("one", "other", "by"), pk=pk)
    turns = ChatTurn.objects.filter(chat__comparison=comparison, is_replaced=False).select_related(
        "chat", "worker"
    )
    cells = {(turn.chat.place, turn.chat.weight_version_id): turn for turn in turns}
    places = sorted({place for place, _ in cells})
    sides = (comparison.one, comparison.other)
    is_open = any(turn.is_open for turn in cells.values())
    served = is_open and explorer_is_there()
    rows = [
        (
            cells[place, comparison.one_id].prompt,
            [_cell(cells[place, side.pk], side, served) for side in sides],
        )
        for place in places
    ]
    equal_replies = sum(
        cells[place, comparison.one_id].reply == cells[place, comparison.other_id].reply
        for place in places
    )
    return {
        "section": "runs",
        "run": run,
        "made": comparison,
        "rows": rows,
        "is_open": is_open,
        "same": equal_replies,
    }


def _cell(turn: ChatTurn, version: WeightVersion, is_served: bool) -> dict:
    waits = waiting_words(turn, version, is_served) if turn.is_open else None
    return {"turn": turn, "version": version, "seconds": turn_seconds(turn), "waits": waits}


def _begin_comparison(request: SignedInRequest, run: Run, data: dict) -> Comparison:
    """Create the comparison. Raise NotPossible."""
    first, second = (_require_version(run, data[name]) for name in ("one", "other"))
    prompts = [*data["prompts"], *_draw_prompts(run, data["tasks"] or 0)]
    if not prompts:
        raise NotPossible("the run has no tasks without images; enter prompts instead")
    return Comparison.begin(
        first, second, request.user, prompts, data["temperature"], data["max_tokens"]
    )


def _require_version(run: Run, number: int) -> WeightVersion:
    """Return the version of this number. Raise NotPossible."""
    version = run.weight_versions.filter(version=number).first()
    if version is None:
        raise NotPossible(f"version {number} not found")
    return version


def _draw_prompts(run: Run, count: int) -> list[list[dict]]:
    """Return the prompts of `count` random tasks of the run; those with pictures are skipped."""
    if not count:
        return []
    keys = run.tasks.aggregate(first=Min("pk"), last=Max("pk"))
    prompts: dict[int, list[dict]] = {}
    for _ in range(4 * count):  # one random key at a time: no list of a million ids
        task = (
            run.tasks.filter(pk__gte=random.randint(keys["first"] or 0, keys["last"] or 0))
            .order_by("pk")
            .first()
        )
        if task is not None and not list_pictures(task.prompt):
            prompts[task.pk] = task.prompt
        if len(prompts) == count:
            break
    return list(prompts.values())


def _offered_versions(run: Run) -> list[WeightVersion]:
    """Return the newest versions with folders, version 0, and all that were evaluated."""
    with_folders = run.weight_versions.filter(
        state__in=(WeightVersion.State.PUBLISHED, WeightVersion.State.VERIFIED)
    ).order_by("-version")
    newest = list(with_folders[:VERSIONS_OFFERED])
    evaluated = run.weight_versions.exclude(pk__in=[version.pk for version in newest]).exclude(
        state=WeightVersion.State.STAGED
    )
    evaluated = evaluated.filter(
        Q(version=0) | Q(Exists(Run.objects.filter(evaluates=OuterRef("pk"))))
    ).order_by("-version")
    return _with_chosen(
        [*newest, *evaluated[:VERSIONS_OFFERED], *run.weight_versions.filter(version=0)], []
    )


def _with_chosen(
    offered: Sequence[WeightVersion], chosen: Sequence[WeightVersion | None]
) -> list[WeightVersion]:
    """Return the offered versions and those that the URL names."""
    version_by_number = {version.version: version for version in (*offered, *filter(None, chosen))}
    return [version_by_number[number] for number in sorted(version_by_number, reverse=True)]


def _chosen_version(
    run: Run, number: str | None, offered: list[WeightVersion], place: int
) -> WeightVersion | None:
    """Return the version of that number; by default the one before training, and the newest."""
    if number and number.isascii() and number.isdigit() and len(number) < 10:
        return run.weight_versions.select_related("parent").filter(version=int(number)).first()
    if not offered:
        return None
    newest = max(offered, key=attrgetter("version"))
    return newest if place else min(offered, key=attrgetter("version"))


def list_version_metrics(chosen: Iterable[WeightVersion | None]) -> list[tuple[str, str, list]]:
    """Return (metric, explanation, [value of one, value of the other]); empty if one is missing."""
    versions = list(chosen)
    sides = [side for side in versions if side is not None]
    if len(sides) < len(versions):
        return []
    rewards = [version_line.mean_reward_while_newest(side) for side in sides]
    gaps = [
        max((word.probe_gap for word in side.acknowledgements.all()), default=None)
        for side in sides
    ]
    moved = [side.movement["whole"] if side.movement else None for side in sides]
    return [
        (
            "step",
            "The step after which the version was saved.",
            [f"{side.step:,}" for side in sides],
        ),
        (
            "reward",
            "Mean over the steps planned while this was the newest version.",
            [f"{r[0]:.3f}" if r else "–" for r in rewards],
        ),
        (
            "norm change",
            "Relative to its own parent.",
            [f"{100 * value:.3f} %" if value is not None else "–" for value in moved],
        ),
        (
            "parity gap",
            "Largest value of all engines, in nats.",
            [f"{gap:.4f}" if gap is not None else "–" for gap in gaps],
        ),
        ("state", "", [side.state for side in sides]),
        (
            "fingerprint",
            "Hash of the tensors' names, shapes and bytes.",
            [side.fingerprint[:12] for side in sides],
        ),
    ]
