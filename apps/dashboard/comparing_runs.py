"""Compare several runs: curves on one axis, latest metrics, and answers to the same tasks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Avg, F
from django.db.models import Window as Over
from django.db.models.functions import RowNumber

from apps.accounts.models import User
from apps.dashboard.charts import Chart, choose_charts
from apps.dashboard.curves import POINTS, Window, curves_document
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.blind_review import open_among
from apps.runs.downsampling import thinned
from apps.runs.models import Metric, Run
from apps.runs.models.steps import REWARD
from apps.tasksets.models import Task

MAX_RUNS = 8
AXES = {
    "step": "step",
    "version": "weight version",
    "time": "time since start, minutes",
}
LAST = 10  # steps over which metrics are averaged
METRICS = {
    REWARD: ("reward", "Mean reward of a step's rollouts."),
    "success": ("success", "Share of rollouts with full reward."),
    "reward_human": ("reward from people", "Mean reward from people."),
    "reward_simulated": ("simulated reward", "Mean reward from the simulated rater."),
    "completion_length": ("length, tokens", "Mean length of a reply."),
    "kl": ("KL, nats", "KL divergence from the reference model, per token."),
    "entropy": ("entropy, nats", "Entropy of the policy, per token."),
    "loss": ("loss", "The value that training minimizes."),
    "step_seconds": ("step time, s", "Time from one step to the next."),
    "explore_tokens_per_s": ("sampled, tokens/s", "Sampling throughput of the explorers."),
}
NEWEST_GROUPS = 200
TASKS_SHOWN = 4
EVALUATIONS = 3  # newest ones of each run whose first tasks may be shown


@dataclass(frozen=True)
class Final:
    """A run's latest values by metric; `best` is the highest mean reward of any step."""

    run: Run
    last: dict[str, float]
    best: float | None


@dataclass(frozen=True)
class Answer:
    """An answer to a task; `version` is of the weights that wrote its end.

    Version and reward are None for someone who rates the run blind.
    """

    rollout: Rollout
    reward: float | None
    version: int | None
    is_of_evaluation: bool


def overlaid(run: Run, names: Iterable[str], axis: str) -> dict[str, dict[str, list]]:
    """Return {name: {"x": places on the axis, "y": means}}, reduced to a bounded number of points.

    At most two queries.
    """
    window = Window(names=frozenset(names), axis=axis)
    document = curves_document(run, window)
    places = document["x"]
    if axis == "time":
        places = [_since_start(run, place) for place in places]
    curves = document["series"].items()
    return {name: _measured_points(places, curve["y"]) for name, curve in curves}


def _since_start(run: Run, moment: float) -> float:
    """Return the minutes from the run's start to a moment (seconds since 1970).

    So runs of different days share an axis.
    """
    return round((moment - run.started_at.timestamp()) / 60, 3) if run.started_at else 0.0


def _measured_points(places: Sequence[float], values: Sequence[float | None]) -> dict[str, list]:
    pairs = [
        (place, value) for place, value in zip(places, values, strict=True) if value is not None
    ]
    return {"x": [place for place, _ in pairs], "y": [value for _, value in pairs]}


def drawn_charts(runs: Sequence[Run]) -> dict[str, Chart]:
    """Return the first metric of each chart of these runs, with the chart; rewards first."""
    charts_by_metric: dict[str, Chart] = {}
    for run in runs:
        charts = choose_charts(run.settings.algorithm)
        charts_by_metric = {
            chart.names[0]: chart for chart in (charts.large, *charts.small)
        } | charts_by_metric
    return dict(sorted(charts_by_metric.items(), key=lambda item: item[0] != REWARD))


def compute_final_means(runs: Sequence[Run]) -> list[Final]:
    """Return the means over each run's last steps: one query, and one for each run."""
    newest = Metric.objects.of_last_steps(runs, LAST).filter(name__in=METRICS)
    by_metric = newest.order_by().values_list("run", "name")
    last: dict[int, dict[str, float]] = defaultdict(dict)
    for run, name, mean in by_metric.annotate(mean=Avg("value")):
        last[run][name] = mean
    return [Final(run, last[run.pk], _best_value(run)) for run in runs]


def metrics_at(runs: Sequence[Run], name: str) -> dict[int, dict[int, float]]:
    """Return {step: {run: mean of the last steps up to this one}}.

    The steps are the last ones of the runs. Each has the runs that have reached it. One query per
    step.
    """
    means_by_step = {}
    for step in {run.step for run in runs}:
        reached_ids = [run.pk for run in runs if run.step >= step]
        rows = Metric.objects.filter(
            run__in=reached_ids, name=name, step__gt=step - LAST, step__lte=step
        ).order_by()
        means_by_step[step] = dict(rows.values_list("run").annotate(mean=Avg("value")))
    return means_by_step


def _best_value(run: Run) -> float | None:
    buckets = thinned(run, [REWARD], 0, run.step, POINTS).series.get(REWARD, {})
    return max((bucket.high for bucket in buckets.values()), default=None)


def same_tasks(runs: Sequence[Run], user: User) -> list[tuple[Task, list[Answer | None]]]:
    """Return tasks that all runs have answered lately, with each run's newest answer.

    The tasks were sampled for training or asked by an evaluation. The answer is None for a run that
    failed at the task. Six queries and one for each run.
    """
    groups = _asked_by_evaluations(runs)  # by run: task → its newest group
    for run in runs:
        drawn = (
            run.groups.filter(draw_index__isnull=False)
            .exclude(state=Group.State.SAMPLING)
            .order_by("-draw_index")
        )
        groups[run.pk] |= dict(reversed(drawn.values_list("task", "pk")[:NEWEST_GROUPS]))
    shared = set.intersection(*(set(of_run) for of_run in groups.values())) if groups else set()
    first = groups[runs[0].pk] if runs else {}
    chosen = sorted(shared, key=lambda task: -first[task])[:TASKS_SHOWN]
    newest = {pk: of_run[task] for pk, of_run in groups.items() for task in chosen}
    group_ids = [of_run[task] for of_run in groups.values() for task in chosen]
    answers = {rollout.group_id: rollout for rollout in _answers(group_ids)}
    is_open = open_among(user, {rollout.run_id for rollout in answers.values()})
    rewards = _rewards([rollout.pk for rollout in answers.values() if rollout.run_id in is_open])
    tasks = Task.objects.select_related("taskset").in_bulk(chosen) if newest else {}
    return [
        (
            tasks[task],
            [_answer(answers.get(groups[run.pk][task]), rewards, is_open) for run in runs],
        )
        for task in chosen
    ]


def _asked_by_evaluations(runs: Sequence[Run]) -> dict[int, dict[int, int]]:
    """Return {run: {task: the group of its newest evaluation}}.

    Only the first tasks of each are read; evaluations over one set share these.
    """
    place = Over(RowNumber(), partition_by=F("evaluates__run"), order_by="-pk")
    newest = (
        Run.objects.filter(evaluates__run__in=runs)
        .annotate(place=place)
        .filter(place__lte=EVALUATIONS)
    )
    run_by_evaluation = dict(newest.values_list("pk", "evaluates__run"))
    groups = (
        Group.objects.filter(run__in=run_by_evaluation, draw_index__lt=NEWEST_GROUPS)
        .exclude(state=Group.State.SAMPLING)
        .order_by("run")
    )
    groups_by_run: dict[int, dict[int, int]] = {run.pk: {} for run in runs}
    for evaluation, task, group in groups.values_list("run", "task", "pk"):
        groups_by_run[run_by_evaluation[evaluation]][task] = group
    return groups_by_run


def _answers(groups: Sequence[int]) -> Iterable[Rollout]:
    """Return the last finished rollout of each group that its policy wrote."""
    policy_rollouts = Rollout.objects.filter(
        group__in=groups, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    return (
        policy_rollouts.select_related("run__evaluates").order_by("group", "-pk").distinct("group")
    )


def _rewards(rollouts: Sequence[int]) -> dict[int, float]:
    """Return the mean of the rewards of each rollout."""
    rows = Reward.objects.filter(
        rollout__in=rollouts, is_current=True, value__isnull=False
    ).order_by()
    return dict(rows.values_list("rollout").annotate(mean=Avg("value")))


def _answer(rollout: Rollout | None, rewards: dict[int, float], is_open: set[int]) -> Answer | None:
    if rollout is None:
        return None
    run = rollout.run
    version = run.evaluates.version if run.evaluates else rollout.last_version
    return Answer(
        rollout, rewards.get(rollout.pk), version if run.pk in is_open else None, run.is_evaluation
    )
