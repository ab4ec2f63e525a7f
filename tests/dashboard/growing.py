"""Many rows, created quickly and through the same interfaces as a few."""

from apps.rewards.models import Reward
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run
from tests.conftest import tokens_of


def grow_rollouts(run: Run, count: int) -> None:
    """Create at least `count` more finished rollouts that wait for raters, with one reward each."""
    Run.objects.filter(pk=run.pk).update(published_version=10_000, planned_steps=100_000)
    run.refresh_from_db()
    groups = Group.open(
        run, "growing", 60, count // run.settings.group_size + 1, run.published_version
    )
    rollouts = list(Rollout.objects.filter(group__in=groups))
    Group.finish_rollouts(
        {group.pk: group.claimed for group in groups},
        [Outcome(r.pk, tokens_of("fine"), "fine", "stop") for r in rollouts],
    )
    Reward.objects.bulk_create(
        Reward(rollout=rollout, source=Reward.Source.RULE, scorer="tone", value=0.5)
        for rollout in rollouts
    )
    for group in Group.objects.filter(pk__in=[group.pk for group in groups]):
        group.move(Group.State.WAITING)


def grow_runs(like: Run, count: int) -> None:
    before = Run.objects.count()
    for n in range(before, before + count):
        Run.create(
            project=like.project, slug=f"run-{n}", title="One of many", plan=like.settings
        ).start()
