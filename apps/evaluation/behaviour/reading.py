"""The pairs of replies of two evaluations of the same tasks, read from the database."""

from collections import defaultdict

from django.db.models.functions import Left

from apps.evaluation.behaviour.clusters import Pair, Reply
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

MAX_PAIRS = 400
MAX_REPLY_LENGTH = 6_000  # characters of a reply

Place = tuple[int, int]  # the task's place in the evaluation, and the sample index


def pairs_of(first_run: Run, second_run: Run, limit: int = MAX_PAIRS) -> list[Pair]:
    """Return both evaluations' replies to the first tasks, pair by pair. Five statements.

    `limit` is the largest number of pairs, and MAX_REPLY_LENGTH characters of each reply are read.
    """
    samples = min(first_run.settings.group_size, second_run.settings.group_size)
    tasks = max(1, limit // samples)
    sides = [_replies(run, tasks, samples) for run in (first_run, second_run)]
    places = sorted(sides[0].keys() & sides[1].keys())[:limit]
    task_ids = {sides[0][place][0] for place in places}
    prompts = dict(Task.objects.filter(pk__in=task_ids).values_list("pk", "prompt"))
    return [
        Pair(prompts[sides[0][place][0]], sides[0][place][1], sides[1][place][1])
        for place in places
    ]


def _replies(run: Run, tasks: int, samples: int) -> dict[Place, tuple[int, Reply]]:
    """Return the finished replies by place, each with its task's id."""
    finished = Rollout.objects.filter(
        run=run,
        state=Rollout.State.FINISHED,
        origin=Rollout.Origin.POLICY,
        group__draw_index__lt=tasks,
        sample_index__lt=samples,
    )
    names = ("pk", "group__draw_index", "sample_index", "group__task", "stop_reason")
    rows = list(
        finished.annotate(beginning=Left("text", MAX_REPLY_LENGTH)).values_list(*names, "beginning")
    )
    values = _values([row[0] for row in rows])
    return {
        (draw, sample): (task, Reply(pk, text, stop, values[pk]))
        for pk, draw, sample, task, stop, text in rows
    }


def _values(rollouts: list[int]) -> dict[int, dict[str, float]]:
    values_by_rollout: dict[int, dict[str, float]] = defaultdict(dict)
    current = Reward.objects.filter(rollout__in=rollouts, is_current=True, value__isnull=False)
    for rollout, scorer, value in current.order_by("pk").values_list("rollout", "scorer", "value"):
        assert value is not None  # as filtered
        values_by_rollout[rollout][scorer] = value
    return values_by_rollout
