"""A run's evaluations: results by version, starting more, schedules; and one evaluation's page."""

from collections.abc import Mapping
from dataclasses import replace

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from pydantic import ValidationError

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.arenas import list_offers
from apps.dashboard.comparing_evaluations import metrics_by_task
from apps.dashboard.evaluations import (
    EvaluationQuery,
    build_evaluations_overview,
    describe_questions,
    slices,
    table_rows,
    words_of_schedule,
)
from apps.dashboard.form_actions import posted_flag
from apps.evaluation.asking import evaluate_several
from apps.evaluation.metrics import MEASURES, list_reported_ks
from apps.evaluation.results import EvaluationMetrics, by_scale, why_not_by_scale
from apps.evaluation.scheduled import add_schedule, remove_schedule
from apps.evaluation.so_far import load_results_so_far
from apps.rewards import scorers
from apps.rollouts.models.chats import COLDEST
from apps.runs.config import ConfigError
from apps.runs.evaluation import Questions, Scheduled
from apps.runs.models import Run, WeightVersion
from apps.tasksets.models import Task, Taskset

TASKSETS_OFFERED = 1_000
NEWEST_KEPT = 24
OLDER_KEPT = 200  # older versions are chosen by typing their numbers
FORMS = ("ask", "schedule", "arena")
MAX_QUESTION_LENGTH = 200  # characters
FIELDS = ("taskset", "samples", "tasks", "temperature", "max_tokens", "correct_threshold", "people")
OF_SCHEDULES = (*FIELDS, "every", "unit")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_evaluations(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project look; owners and researchers start evaluations (POST)."""
    if request.method == "POST":
        return _ask(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    if run.is_evaluation:
        return render(request, "dashboard/evaluation.html", _evaluation_context(request, run))
    return render(request, "dashboard/evaluations.html", _page(request, run))


@require_safe
@login_required
def evaluations_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: the part that changes while versions are evaluated."""
    run = seen_run(request, project, slug)
    if run.is_evaluation:
        return render(request, "dashboard/_evaluation_now.html", _evaluation_context(request, run))
    return render(request, "dashboard/_evaluations_now.html", _table(request, run))


@require_POST
@login_required
def schedules(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: add a schedule, or remove one (`remove`: its key)."""
    run = steered_run(request, project, slug)
    key = request.POST.get("remove", "")
    try:
        if "remove" in request.POST:
            remove_schedule(run, key, request.user)
        else:
            scheduled = Scheduled.model_validate(_posted_fields(request.POST, OF_SCHEDULES))
            _require_taskset(run, scheduled.taskset)
            add_schedule(run, scheduled, request.user)
    except (ConfigError, ValidationError) as wrong:
        return refused(request, run, wrong, "Nothing was changed", "schedule")
    messages.success(
        request,
        ("Schedule removed. Its evaluations are kept." if key else "Schedule added."),
    )
    return redirect("run-evaluations", project, slug)


def refused(
    request: SignedInRequest, run: Run, wrong: ConfigError | ValidationError, words: str, form: str
) -> HttpResponse:
    """Return the page with the errors at the fields of a form, and its posted values.

    The form is `ask`, `schedule` or `arena`.
    """
    problems = _problems(wrong)
    messages.error(
        request, f"{words}. {'; '.join(f'{name}: {why}' for name, why in problems.items())}."
    )
    return render(
        request, "dashboard/evaluations.html", _page(request, run, form, problems), status=422
    )


def _ask(request: SignedInRequest, run: Run) -> HttpResponse:
    """Start the evaluation of every chosen version.

    An evaluation that exists already is not repeated unless this is requested.
    """
    is_bench = posted_flag(request, "versions", on="all")
    try:
        if run.is_evaluation:
            raise ConfigError(
                {"run": "is an evaluation itself. Evaluate versions of its run instead"}
            )
        questions = Questions.model_validate(_posted_fields(request.POST, FIELDS))
        _require_taskset(run, questions.taskset)
        versions = None if is_bench else _numbers(request.POST)
        evaluations = evaluate_several(
            run, versions, questions, request.user, force=bool(request.POST.get("force"))
        )
    except (ConfigError, ValidationError) as wrong:
        return refused(request, run, wrong, "The evaluation was not started", "ask")
    new = sum(is_new for _, is_new in evaluations)
    message = (
        f"{new} evaluation{'' if new == 1 else 's'} started" if new else "No evaluations started"
    )
    repeated = len(evaluations) - new
    messages.success(request, message + (f"; {repeated} already existed." if repeated else "."))
    return redirect("run-evaluations", run.project.slug, run.slug)


def _numbers(posted: QueryDict) -> set[int]:
    """Return the selected or typed versions. Raise ConfigError for anything but numbers."""
    typed = [*posted.getlist("version"), *posted.get("others", "").replace(",", " ").split()]
    if wrong := next(
        (text for text in typed if not (text.isascii() and text.isdigit() and len(text) < 10)), None
    ):
        raise ConfigError(
            {"version": f"{wrong[:20]!r} is not a version number; enter numbers such as 40, 120"}
        )
    return {int(text) for text in typed}


def _posted_fields(posted: QueryDict, fields: tuple[str, ...]) -> dict:
    values = {name: text for name in fields if (text := posted.get(name, "").strip())}
    chosen = [name for name in posted.getlist("scorer") if name]
    return values | ({"rewards": [{"scorer": name} for name in chosen]} if chosen else {})


def _require_taskset(run: Run, slug: str) -> None:
    if not run.project.tasksets.filter(slug=slug).exists():
        raise ConfigError({"taskset": f"no taskset {slug!r} in project {run.project.slug!r}"})


def _problems(wrong: ConfigError | ValidationError) -> Mapping[str, str]:
    if isinstance(wrong, ConfigError):
        return wrong.problems
    return {
        ".".join(map(str, error["loc"])) or "schedule": error["msg"].removeprefix("Value error, ")
        for error in wrong.errors()
    }


def _table(request: SignedInRequest, run: Run) -> dict:
    query = EvaluationQuery.read(request.GET)
    if not may_see_judgements(request, run):
        return {"run": run, "is_open": False, "shown": query}
    overview = build_evaluations_overview(run, query)
    return {
        "run": run,
        "is_open": True,
        "shown": query,
        "overview": overview,
        "measures": MEASURES,
        "why": MEASURES[query.measure],
        "query": request.GET.urlencode(),
    }


def _page(
    request: SignedInRequest, run: Run, form: str = "", problems: Mapping[str, str] | None = None
) -> dict:
    """Return the context; `form` is the refused one, with its `problems` and posted values."""
    plan = run.settings
    table = _table(request, run)
    filled = {
        name: {"posted": request.POST, "problems": problems} if name == form else {}
        for name in FORMS
    }
    return {
        **table,
        **filled,
        "section": "runs",
        "may_steer": may_steer(request, run),
        "tasksets": _tasksets(run),
        "kept": _offered_versions(run),
        "ticked_versions": request.POST.getlist("version"),
        "ticked_scorers": request.POST.getlist("scorer"),
        "schedules": [(schedule, words_of_schedule(schedule)) for schedule in plan.evaluations],
        "scorers": scorers.scorer_names(),
        "own": [choice.scorer for choice in plan.rewards],
        "is_judged_by_people": not plan.judges,
        "temperature": plan.sampling.temperature,
        "coldest": COLDEST,
        "max_tokens": plan.sampling.max_tokens,
        "keeps": plan.checkpoints,
        "has_ended": run.state in Run.ENDED,
        "offers": list_offers(run) if table["is_open"] else [],
        "ticked": request.POST.getlist("contestant"),
    }


def _offered_versions(run: Run) -> dict:
    """Return versions whose folders exist, and how many there are beyond those offered.

    Offered are the newest, the base, and some older ones.
    """
    with_folders = run.weight_versions.filter(state=WeightVersion.State.PUBLISHED)
    offered = list(with_folders.only("run", "version", "pinned_at")[: NEWEST_KEPT + OLDER_KEPT])
    counts = with_folders.aggregate(count=Count("pk"), base=Count("pk", filter=Q(version=0)))
    newest = offered[:NEWEST_KEPT]
    older = [version for version in offered[NEWEST_KEPT:] if version.version]
    if counts["base"] and all(version.version for version in newest):
        newest.append(WeightVersion(run=run, version=0))
    return {
        "newest": newest,
        "older": older,
        "count": counts["count"],
        "beyond": counts["count"] - len(newest) - len(older),
    }


def _tasksets(run: Run) -> list[Taskset]:
    """Return the tasksets to choose from, the likeliest choice first.

    First come those that the run does not train on and whose answers have the same keys as its
    own, so that its scorers can judge them; then its own; then the others.
    """
    own_ids = set(run.taskset_ids)
    offered = run.project.tasksets.filter(grows=False).order_by("slug")[:TASKSETS_OFFERED]
    firsts = Task.objects.filter(
        taskset__in=[*own_ids, *(taskset.pk for taskset in offered)], index=0
    )
    keys = {pk: frozenset(answer) for pk, answer in firsts.values_list("taskset", "answer")}
    judged_alike = {keys.get(pk) for pk in own_ids}

    def rank(taskset: Taskset) -> tuple:
        is_alike = keys.get(taskset.pk) in judged_alike
        return (not is_alike, taskset.pk in own_ids, taskset.slug)

    return sorted(offered, key=rank)


def _evaluation_context(request: SignedInRequest, run: Run) -> dict:
    """Return the context of an evaluation's page."""
    plan = run.settings
    query = EvaluationQuery.read(request.GET)
    evaluated_run = run.evaluates.run if run.evaluates else None
    context = {
        "section": "runs",
        "run": run,
        "shown": query,
        "plan": plan,
        "words": describe_questions(plan),
        "of": evaluated_run,
        "is_open": may_see_judgements(request, run),
        "may_steer": may_steer(request, run),
        "query": request.GET.urlencode(),
        "is_over": run.state in Run.ENDED,
    }
    if not context["is_open"]:
        return context
    so_far = load_results_so_far(run)
    context |= {
        "so_far": so_far,
        "tasks": run.tasks_asked,
        "moves": not context["is_over"] or so_far.metrics is None,
    }
    if so_far.metrics is None:
        return context
    result = _by_its_scales(run, so_far.metrics, query)
    return context | _results_context(run, result, query)


def _results_context(run: Run, result: EvaluationMetrics, query: EvaluationQuery) -> dict:
    ks = list_reported_ks(run.settings.group_size)
    measures = {name: words for name, words in MEASURES.items() if name in result.metrics}
    assert run.taskset is not None  # evaluations ask one taskset
    hardest = run.taskset.tasks.filter(
        index__in=[hard_task["index"] for hard_task in result.hardest]
    ).only("index", "prompt")
    questions = {task.index: task.question[:MAX_QUESTION_LENGTH] for task in hardest}
    reasons = [
        why_not_by_scale(run, result.tasks - result.dropped),
        "" if result.domains else "all tasks are of the same domain",
    ]
    return {
        "result": result,
        "ks": ks,
        "rows": table_rows(result, ks),
        "slices": slices(result, query),
        "measures": measures,
        "questions": questions,
        "absent": [why for why in reasons if why],
        "why": MEASURES[query.measure],
    }


def _by_its_scales(
    run: Run, result: EvaluationMetrics, query: EvaluationQuery
) -> EvaluationMetrics:
    """Add scales that were estimated since the evaluation was summarized."""
    by_task = metrics_by_task([run.pk], query).get(run.pk)
    if by_task is None:  # it is not summarized yet, or was by an earlier release
        return result
    return replace(
        result,
        scales=by_scale(run, list(by_task), {query.measure: {query.k: list(by_task.values())}}),
    )
