"""A run in a few numbers, for the terminal and for the demo's line; read from rows only."""

from django.db.models import Avg

from apps.buffer.models import Experience, StepItem
from apps.runs.models import Run, TrainStep

FIRST_STEPS = 5
LAST_STEPS = 10  # steps over which the first and last rewards are averaged


def step_rewards(run: Run, first: int, last: int) -> list[float]:
    """Return the mean reward of each committed step in this range, in order."""
    among = {"step__number__gte": first, "step__number__lte": last}
    items = StepItem.objects.filter(step__run=run, step__state=TrainStep.State.COMMITTED, **among)
    by_step = (
        items.values("step__number")
        .order_by("step__number")
        .annotate(mean=Avg("experience__reward"))
    )
    return [row["mean"] for row in by_step]


def newest_rewards(run: Run) -> list[float]:
    return step_rewards(run, run.step - LAST_STEPS + 1, run.step)


def rounded_mean(values: list[float]) -> float | None:
    """Return the rounded mean, None for an empty list."""
    return round(sum(values) / len(values), 4) if values else None


def latest(run: Run) -> str:
    """Describe the newest step."""
    last = StepItem.objects.filter(step__run=run, step__number=run.step).aggregate(
        mean=Avg("experience__reward")
    )["mean"]
    reward = "no reward yet" if last is None else f"reward {last:.3f}"
    return (
        f"{reward}, version {run.published_version}, {run.groups_opened} groups opened,"
        f" {run.groups_dropped} dropped"
    )


def describe_run(run: Run) -> dict[str, object]:
    """Return the present state of the run as a document."""
    return {
        "run": run.slug,
        "project": run.project.slug,
        "state": run.state,
        "reason": run.state_reason,
        "waiting_on": run.waiting_on,
        "step": run.step,
        "planned_steps": run.planned_steps,
        "published_version": run.published_version,
        "reward_last": rounded_mean(newest_rewards(run)),
        "groups_opened": run.groups_opened,
        "groups_dropped": run.groups_dropped,
        **{
            f"experiences_{state}": count for state, count in Experience.objects.census(run).items()
        },
    }


def summary_document(run: Run, seconds: float, reconciled: bool) -> dict[str, object]:
    """Return the line of `manage.py demo --exit`; `seconds` is the wall time of the run."""
    trained = Experience.objects.filter(run=run, state=Experience.State.TRAINED)
    return {
        "run": run.slug,
        "steps": run.step,
        "reward_first": rounded_mean(step_rewards(run, 1, FIRST_STEPS)),
        "reward_last": rounded_mean(newest_rewards(run)),
        "groups_issued": run.groups_opened,
        "groups_trained": trained.values("group").distinct().count(),
        "groups_dropped": run.groups_dropped,
        "weight_versions": run.weight_versions.count(),
        "seconds": round(seconds, 1),
        "reconcile": "clean" if reconciled else "violated",
    }
