"""Experience replay with a real trainer: correct after a crash, in the metrics, on the pages and in
a replay of the run.
"""

import pytest

from apps.buffer.models import Experience, StepItem
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.verdicts import verdict_on
from apps.feedback.models import Rating
from apps.lineage.tracing import trace_weights
from apps.runs.models import Run
from tests import profiles
from tests.workers.trainer.feeding import train_to_the_end
from tests.workers.trainer.test_crashes import kill_in_step
from tests.workers.trainer.test_replay_trainer import batches, dana, rated_run, replayed, violations

__all__ = ["dana", "rated_run"]  # fixtures

READING = {
    "reading": {"replay": {"name": "prioritized", "share": 0.5, "cool_down": 1}},
    "max_staleness": 4,
}


def taken(run: Run) -> list[list[tuple[int, int, bool]]]:
    """Return what each update used, without ids: draw, index in the group, and whether it was
    replayed.
    """
    names = ("experience__group__draw_index", "experience__rollout__sample_index", "is_again")
    return [
        list(step.items.order_by("position").values_list(*names))
        for step in run.steps.order_by("number")
    ]


@pytest.mark.parametrize(
    "method", profiles.nightly_but(("_update", "_stage", "_commit"), kept=("_stage",))
)
def test_trainer_after_a_killed_one_replays_the_same_experiences(
    tiny_run, new_loop, monkeypatch, method
):
    undisturbed = train_to_the_end(new_loop(), tiny_run(**READING))
    run = tiny_run(**READING)
    kill_in_step(new_loop(), run, 5, method, monkeypatch)
    run = train_to_the_end(new_loop(), run)
    assert taken(run) == taken(undisturbed) and run.groups_again == undisturbed.groups_again > 0
    assert (
        run.weight_versions.first().fingerprint == undisturbed.weight_versions.first().fingerprint
    )
    found = {
        name: words
        for name, words in reconcile().items()
        if words and name != "engines served what was published"
    }
    assert found == {}


def test_metrics_count_replayed_rows_and_average_rewards_of_new_ones(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(**READING))
    step = run.steps.filter(items__is_again=True).order_by("number").first()
    told = dict(run.metrics.filter(step=step.number).values_list("name", "value"))
    fresh = Experience.objects.filter(
        step_items__step=step, step_items__is_again=False
    ).values_list("reward", flat=True)
    assert told["rows_again"] == 4 and told["rows"] == 8
    assert told["reward_mean"] == pytest.approx(sum(fresh) / len(fresh))
    assert told["staleness_max"] > 0


def test_rating_is_traced_to_every_update_that_used_its_group(rated_run):
    run = rated_run(**READING)
    shapings, _ = trace_weights(run.weight_versions.get(version=6))
    assert len(shapings) == 6
    for shaping in shapings:
        groups = set(
            StepItem.objects.filter(step=shaping.step).values_list("experience__group", flat=True)
        )
        wanted = Rating.objects.filter(rollout__group__in=groups, is_late=False, is_current=True)
        assert {rating.pk for rating in shaping.ratings} == set(wanted.values_list("pk", flat=True))
        assert shaping.rollouts == shaping.step.items.count()


def test_rollout_names_every_update_that_used_it(tiny_run, new_loop):
    run = train_to_the_end(new_loop(), tiny_run(**READING))
    experience = run.experiences.filter(uses=2).first()
    first, last = experience.step_items.order_by("step__number").values_list(
        "step__number", flat=True
    )
    verdict = verdict_on(experience.rollout, [experience])
    assert (verdict.words, verdict.step) == (
        f"Admitted and trained in steps {first} and {last}",
        last,
    )


def test_replay_of_a_run_with_experience_replay_is_exact(rated_run, new_loop):
    run = rated_run(**READING)
    assert run.groups_again
    again = replayed(run, new_loop)
    assert batches(again) == batches(run) and again.groups_again == run.groups_again
    assert again.weight_versions.first().fingerprint == run.weight_versions.first().fingerprint
    assert violations() == {}
