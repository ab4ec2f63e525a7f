"""Several runs beside each other: their curves on one axis, their figures of last, and what they answer to the same tasks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Avg, F, Max

from apps.dashboard.charts import Chart, charts_of
from apps.dashboard.curves import curves
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Metric, Run, TrainStep
from apps.runs.models.steps import REWARD
from apps.tasksets.models import Task

MOST_RUNS = 8
AXES = {"step": "optimizer step", "version": "weight version", "time": "time since the start, minutes"}
LAST = 10  # updates over which figures are averaged
FIGURES = {
    REWARD: ("reward", "Mean reward of the rollouts of an update."),
    "success": ("success", "Share of rollouts with the full reward."),
    "reward_human": ("people's reward", "Mean of what people gave."),
    "completion_length": ("length, tokens", "Mean length of a reply."),
    "kl": ("KL, nats", "How far the policy has moved from the reference, per token."),
    "entropy": ("entropy, nats", "How undecided the policy is, per token."),
    "loss": ("loss", "What an update minimises."),
    "step_seconds": ("update, s", "Time from one update to the next."),
    "explore_tokens_per_s": ("sampled, tokens/s", "Throughput of the explorers."),
}
NEWEST_GROUPS, TASKS_SHOWN = 200, 4


@dataclass(frozen=True)
class Final:
    """A run's last figures, by metric; `best`: the highest mean reward of any update."""

    run: Run
    last: dict[str, float]
    best: float | None


@dataclass(frozen=True)
class Answer:
    rollout: Rollout
    reward: float | None


def overlaid(run: Run, names: Iterable[str], axis: str) -> dict[str, dict[str, list]]:
    """{name: {"x": places on the axis, "y": values}}, thinned: no answer grows with the run. Two queries."""
    found = curves(run, names)
    places = _places(run, {step for series in found.values() for step in series["x"]}, axis)
    return {
        name: {
            "x": [places[step] for step in series["x"] if step in places],
            "y": [value for step, value in zip(series["x"], series["y"], strict=True) if step in places],
        }
        for name, series in found.items()
    }


def _places(run: Run, steps: set[int], axis: str) -> dict[int, float]:
    """Step → its place on the axis; a step of which that is not known has none."""
    if axis == "step":
        return {step: step for step in steps}
    rows = TrainStep.objects.filter(run=run, number__in=steps)
    if axis == "version":
        return dict(rows.values_list("number", "version"))
    if run.started_at is None:
        return {}
    made = rows.filter(committed_at__isnull=False).values_list("number", "committed_at")
    return {number: round((at - run.started_at).total_seconds() / 60, 3) for number, at in made}


def drawn_charts(runs: Sequence[Run]) -> dict[str, Chart]:
    """What is drawn of any of these runs, by metric, rewards first: the first metric of each of their charts."""
    found: dict[str, Chart] = {}
    for run in runs:
        charts = charts_of(run.settings.algorithm)
        found = {chart.names[0]: chart for chart in (charts.large, *charts.small)} | found
    return dict(sorted(found.items(), key=lambda one: one[0] != REWARD))


def finals_of(runs: Sequence[Run]) -> list[Final]:
    """Means over each run's last updates, in two queries."""
    keys = [run.pk for run in runs]
    rows = Metric.objects.filter(run__in=keys, name__in=FIGURES, step__gt=F("run__step") - LAST)
    last: dict[int, dict[str, float]] = defaultdict(dict)
    for run, name, mean in rows.order_by().values_list("run", "name").annotate(mean=Avg("value")):
        last[run][name] = mean
    best = dict(Metric.objects.filter(run__in=keys, name=REWARD).order_by().values_list("run").annotate(best=Max("value")))
    return [Final(run, last[run.pk], best.get(run.pk)) for run in runs]


def same_tasks(runs: Sequence[Run], open_runs: set[int]) -> list[tuple[Task, list[Answer | None]]]:
    """Tasks that all of the runs have drawn lately, with each run's newest answer; none for a run that has failed at it.

    Rewards are those of runs in `open_runs` alone. Three queries and one for each run.
    """
    groups: dict[int, dict[int, int]] = {}  # by run: task → its newest group
    for run in runs:
        rows = Group.objects.filter(run=run).exclude(state=Group.State.SAMPLING).order_by("-pk").values_list("task", "pk")
        groups[run.pk] = dict(reversed(rows[:NEWEST_GROUPS]))
    shared = set.intersection(*(set(of_run) for of_run in groups.values())) if groups else set()
    first = groups[runs[0].pk] if runs else {}
    chosen = sorted(shared, key=lambda task: -first[task])[:TASKS_SHOWN]
    newest = {pk: of_run[task] for pk, of_run in groups.items() for task in chosen}
    wanted = [of_run[task] for of_run in groups.values() for task in chosen]
    answers = {rollout.group_id: rollout for rollout in _answers(wanted)}
    rewards = _rewards([rollout.pk for rollout in answers.values() if rollout.run_id in open_runs])
    tasks = Task.objects.select_related("taskset").in_bulk(chosen) if newest else {}
    return [(tasks[task], [_answer(answers.get(groups[run.pk][task]), rewards) for run in runs]) for task in chosen]


def _answers(groups: Sequence[int]) -> Iterable[Rollout]:
    """The last finished rollout of each group that its policy wrote."""
    own = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
    return own.order_by("group", "-pk").distinct("group")


def _rewards(rollouts: Sequence[int]) -> dict[int, float]:
    """The mean of what was said of each."""
    rows = Reward.objects.filter(rollout__in=rollouts, is_current=True, value__isnull=False).order_by()
    return dict(rows.values_list("rollout").annotate(mean=Avg("value")))


def _answer(rollout: Rollout | None, rewards: dict[int, float]) -> Answer | None:
    return None if rollout is None else Answer(rollout, rewards.get(rollout.pk))
