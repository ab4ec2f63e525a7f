"""Runs seeded with groups of another run, and runs that release old arrays, reach the same weights
after a crash.
"""

from apps.buffer.models import Seed, StepItem
from apps.buffer.retention import ReleaseSize, released
from apps.dashboard.reconciliation import reconcile
from apps.pipelines.seeding import seed_run
from apps.rollouts.models import RolloutPayload
from apps.runs.models import Run
from apps.runs.retention import Retention
from tests.workers.trainer.feeding import feed, train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step

OFTEN = {"checkpoints": {"every": 1, "keep": 2}, "steps": 8}


def violated() -> dict[str, list[str]]:
    return {
        name: found
        for name, found in reconcile().items()
        if found and name != "engines served what was published"
    }


def seeded(of: Run, slug: str) -> Run:
    """Create and start a run like `of`, seeded with six of its groups."""
    plan = of.settings.model_copy(update={"max_staleness": 2})
    run = Run.create(project=of.project, slug=slug, title="Seeded", plan=plan)
    assert seed_run(run, of, of.rollouts.all(), 6).taken == 6
    run.start()
    return run


def test_seeded_run_trains_on_its_seeds_first_and_reaches_the_same_weights_after_a_crash(
    tiny_run, new_loop, monkeypatch
):
    source = train_to_the_end(new_loop(), tiny_run())
    undisturbed = train_to_the_end(new_loop(), seeded(source, "one"))
    run = seeded(source, "two")
    kill_in_step(new_loop(), run, 2, "_commit", monkeypatch)
    run = train_to_the_end(new_loop(), run)
    assert (
        run.weight_versions.first().fingerprint == undisturbed.weight_versions.first().fingerprint
    )
    taken = StepItem.objects.filter(step__run=run, experience__group__seed__isnull=False)
    assert set(taken.values_list("step__number", flat=True)) == {1, 2, 3} and taken.count() == 24
    assert Seed.objects.filter(run=run, group__experiences__state="trained").distinct().count() == 6
    stale = dict(run.metrics.filter(name="staleness_max").values_list("step", "value"))
    assert [stale[number] for number in (1, 2, 3)] == [0, 1, 2]
    assert violated() == {}


def test_run_with_retention_reaches_the_same_weights_after_a_crash(tiny_run, new_loop, monkeypatch):
    undisturbed = train_to_the_end(new_loop(), tiny_run(**OFTEN))
    run = tiny_run(**OFTEN)
    loop = new_loop()
    gone = ReleaseSize()
    while run.step < 6:
        feed(run)
        loop.serve()
        gone += sum(released(run, Retention(uses=1)), ReleaseSize())
        run.refresh_from_db()
    kill_in_step(loop, run, 7, "_update", monkeypatch)
    assert sum(released(run, Retention(uses=1)), ReleaseSize()).groups == 0, (
        "nothing was trained in between"
    )
    run = train_to_the_end(new_loop(), run)
    assert (
        run.weight_versions.first().fingerprint == undisturbed.weight_versions.first().fingerprint
    )
    assert (
        gone.groups == 6
        and RolloutPayload.objects.filter(rollout__run=run).count()
        == run.rollouts.count() - gone.rollouts
    )
    assert violated() == {}
