"""Evaluated versions with judged replies, created through the same interfaces as real ones."""

from collections.abc import Iterable

from apps.evaluation.asking import start_evaluation
from apps.evaluation.results import keep_results
from apps.rewards.models import Reward
from apps.rollouts.evaluation_groups import close_evaluation_groups, complete_measured
from apps.rollouts.models import Group
from apps.runs.evaluation import Questions
from apps.runs.models import Run, WeightVersion


def publish(run: Run, *numbers: int) -> None:
    for number in numbers:
        fields = {"step": number, "folder": f"/weights/{number}", "fingerprint": f"{number:016}"}
        version = WeightVersion.objects.create(run=run, version=number, **fields)
        version.verify()
        version.publish()
    run.refresh_from_db()


def complete(made: Run, finish, right: int | Iterable[int]) -> None:
    """Judge all four tasks; right are those at these indexes, or the first ones up to a count."""
    places = set(range(right) if isinstance(right, int) else right)
    for group in finish(made, groups=4):
        for rollout in group.rollouts.all():
            Reward.record(rollout, Reward.Source.RULE, "sort", float(group.task.index in places))
    Group.objects.filter(run=made).update(state="judged")
    close_evaluation_groups(Group.objects.claim("judged", "refiner", 60, 10, made))
    complete_measured()
    keep_results()


def evaluated(run: Run, number: int, finish, right: int | Iterable[int], samples: int = 2) -> Run:
    made, _ = start_evaluation(
        run.weight_versions.get(version=number), Questions(taskset="sort", samples=samples)
    )
    complete(made, finish, right)
    return made
