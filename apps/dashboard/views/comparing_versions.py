"""Two versions of a run side by side: their figures, and what they answer to the same prompts."""

import random
from collections.abc import Iterable, Sequence

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Max, Min, OuterRef, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.dashboard import weight_line
from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.comparing_evaluations import of_versions
from apps.dashboard.evaluations import Shown
from apps.dashboard.views.chatting import TOKENS, Knobs, explorer_is_there, seconds_of, waiting_words
from apps.feedback.evaluation.figures import MEASURES
from apps.rollouts.models import ChatTurn, Comparison
from apps.rollouts.models.chats import COLDEST, LONGEST_TEXT, MOST_TOKENS
from apps.runs.blindness import sees_judgements
from apps.runs.models import NotPossible, Run, WeightVersion
from apps.tasksets.messages import pictures_of

MOST_PROMPTS, TASKS = 12, 4
BETWEEN = "---"  # a line of its own, between prompts of several lines
EARLIER_SHOWN, VERSIONS_OFFERED = 10, 60


class Asking(Knobs):
    """Which prompts are asked of both: typed, one a line or in blocks with a line `---` between them, and tasks of the run."""

    one = forms.IntegerField(min_value=0)
    other = forms.IntegerField(min_value=0)
    prompts = forms.CharField(max_length=LONGEST_TEXT, required=False)
    tasks = forms.IntegerField(min_value=0, max_value=MOST_PROMPTS, required=False)

    def clean_prompts(self) -> list[list[dict]]:
        lines, blocks = self.cleaned_data["prompts"].splitlines(), [[]]
        for line in lines:
            if line.strip() == BETWEEN:
                blocks.append([])
            else:
                blocks[-1].append(line)
        said = ["\n".join(block).strip() for block in blocks] if len(blocks) > 1 else [line.strip() for line in lines]
        return [[{"role": "user", "content": text}] for text in said if text]

    def clean(self) -> dict:
        said = super().clean()
        count = len(said.get("prompts") or []) + (said.get("tasks") or 0)
        if "prompts" in said and not 0 < count <= MOST_PROMPTS:
            raise forms.ValidationError(f"Ask 1 to {MOST_PROMPTS} prompts in all; these are {count}.")
        if said.get("one") is not None and said.get("one") == said.get("other"):
            raise forms.ValidationError("Choose two different versions.")
        return said


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def compare(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members who do not judge the run blind: `?one=3&other=5` side by side. Owners and researchers ask both the same (POST)."""
    run = (steered_run if request.method == "POST" else seen_run)(request, project, slug)
    if not sees_judgements(request.user, run):
        raise PermissionDenied("You judge this run blind: how good its versions are is shown to those who steer it.")
    steers, offered = may_steer(request, run), _offered(run)
    form = Asking(request.POST) if request.method == "POST" else None
    if form is not None and form.is_valid():
        try:
            return redirect("run-weights-answers", project, slug, _begun(request, run, form.cleaned_data).pk)
        except NotPossible as error:
            form.add_error(None, f"{error}.".capitalize())
    asked = form.data if form is not None else request.GET
    chosen = [_chosen(run, asked.get(name), offered, place) for place, name in enumerate(("one", "other"))]
    measured = Shown.read(request.GET)
    context = {
        "section": "weights", "run": run, "offered": _with_chosen(offered, chosen), "chosen": chosen, "form": form,
        "steers": steers, "may_ask": steers and None not in chosen and all(version.has_folder for version in chosen),
        "sides": sides_of(chosen),
        "earlier": run.comparisons.filter(by=request.user).select_related("one", "other")[:EARLIER_SHOWN],
        "knobs": form.data if form is not None else {"temperature": f"{COLDEST:g}", "max_tokens": TOKENS, "tasks": TASKS},
        "beside": None if None in chosen else of_versions(chosen, measured), "measured": measured, "measures": MEASURES,
        "why": MEASURES[measured.measure],
        "coldest": COLDEST, "most_tokens": MOST_TOKENS, "most_prompts": MOST_PROMPTS, "longest": LONGEST_TEXT,
    }  # fmt: skip
    return render(request, "dashboard/weight_compare.html", context, status=422 if form is not None else 200)


@require_safe
@login_required
def answers(request: HttpRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: what two versions answered to the same prompts."""
    return render(request, "dashboard/weight_answers.html", _answers(request, project, slug, pk))


@require_safe
@login_required
def answers_now(request: HttpRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the part that moves while they are written."""
    return render(request, "dashboard/_weight_answers_now.html", _answers(request, project, slug, pk))


def _answers(request: HttpRequest, project: str, slug: str, pk: int) -> dict:
    run = steered_run(request, project, slug)
    made = get_object_or_404(run.comparisons.select_related("one", "other", "by"), pk=pk)
    turns = ChatTurn.objects.filter(chat__comparison=made, is_replaced=False).select_related("chat", "worker")
    cells = {(turn.chat.place, turn.chat.weight_version_id): turn for turn in turns}
    places = sorted({place for place, _ in cells})
    sides, is_open = (made.one, made.other), any(turn.is_open for turn in cells.values())
    served = is_open and explorer_is_there()
    rows = [(cells[place, made.one_id].prompt, [_cell(cells[place, side.pk], side, served) for side in sides]) for place in places]
    same = sum(cells[place, made.one_id].said == cells[place, made.other_id].said for place in places)
    return {"section": "weights", "run": run, "made": made, "rows": rows, "is_open": is_open, "same": same}


def _cell(turn: ChatTurn, version: WeightVersion, is_served: bool) -> dict:
    waits = waiting_words(turn, version, is_served) if turn.is_open else None
    return {"turn": turn, "version": version, "seconds": seconds_of(turn), "waits": waits}


def _begun(request: HttpRequest, run: Run, said: dict) -> Comparison:
    """Raises NotPossible."""
    sides = [run.weight_versions.filter(version=said[name]).first() for name in ("one", "other")]
    for number, side in zip((said["one"], said["other"]), sides, strict=True):
        if side is None:
            raise NotPossible(f"there is no version {number}")
    prompts = [*said["prompts"], *_drawn(run, said["tasks"] or 0)]
    if not prompts:
        raise NotPossible("the run has no tasks without pictures, which alone can be asked here: type prompts")
    return Comparison.begin(*sides, request.user, prompts, said["temperature"], said["max_tokens"])


def _drawn(run: Run, count: int) -> list[list[dict]]:
    """Prompts of so many tasks of the run, drawn at random; those that show pictures are left out."""
    if not count:
        return []
    keys = run.tasks.aggregate(first=Min("pk"), last=Max("pk"))
    found: dict[int, list[dict]] = {}
    for _ in range(4 * count):  # by a random key each: no list of a million ids
        task = run.tasks.filter(pk__gte=random.randint(keys["first"] or 0, keys["last"] or 0)).order_by("pk").first()
        if task is not None and not pictures_of(task.prompt):
            found[task.pk] = task.prompt
        if len(found) == count:
            break
    return list(found.values())


def _offered(run: Run) -> list[WeightVersion]:
    """The newest whose folder is there, and of all others version 0 and those that were evaluated, kept or not."""
    kept = run.weight_versions.filter(state__in=(WeightVersion.State.PUBLISHED, WeightVersion.State.VERIFIED)).order_by("-version")
    newest = list(kept[:VERSIONS_OFFERED])
    others = run.weight_versions.exclude(pk__in=[version.pk for version in newest]).exclude(state=WeightVersion.State.STAGED)
    others = others.filter(Q(version=0) | Q(Exists(Run.objects.filter(evaluates=OuterRef("pk"))))).order_by("-version")
    return _with_chosen([*newest, *others[:VERSIONS_OFFERED], *run.weight_versions.filter(version=0)], [])


def _with_chosen(offered: Sequence[WeightVersion], chosen: Sequence[WeightVersion | None]) -> list[WeightVersion]:
    """What is offered, and what an address named besides."""
    found = {version.version: version for version in (*offered, *filter(None, chosen))}
    return [found[number] for number in sorted(found, reverse=True)]


def _chosen(run: Run, number: str | None, offered: list[WeightVersion], place: int) -> WeightVersion | None:
    """The version of that number; without one the newest but one, and the newest."""
    if number and number.isascii() and number.isdigit() and len(number) < 10:
        return run.weight_versions.select_related("parent").filter(version=int(number)).first()
    newest = offered[:2][::-1]
    return newest[min(place, len(newest) - 1)] if newest else None


def sides_of(chosen: Iterable[WeightVersion | None]) -> list[tuple[str, str, list]]:
    """(what, explanation, [value of one, value of the other]) of their figures; empty where one is missing."""
    sides = list(chosen)
    if None in sides:
        return []
    rewards = [weight_line.reward_of(side) for side in sides]
    gaps = [max((word.probe_gap for word in side.acknowledgements.all()), default=None) for side in sides]
    moved = [side.movement["whole"] if side.movement else None for side in sides]
    return [
        ("after update", "The update after which it was taken.", [f"{side.step:,}" for side in sides]),
        ("reward", "Mean over the updates planned while it was the newest.", [f"{r[0]:.3f}" if r else "–" for r in rewards]),
        ("norm change", "Against its own parent.", [f"{100 * value:.3f} %" if value is not None else "–" for value in moved]),
        ("probe gap", "Largest of its engines, nats.", [f"{gap:.4f}" if gap is not None else "–" for gap in gaps]),
        ("state", "", [side.state for side in sides]),
        ("fingerprint", "Of names, shapes and bytes of its tensors.", [side.fingerprint[:12] for side in sides]),
    ]
