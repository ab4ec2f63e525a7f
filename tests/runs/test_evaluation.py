"""An evaluation is a run without training: its valid settings, the weights it uses, and that these
weights are kept.
"""

import pytest

from apps.runs.admission import groups_allowed
from apps.runs.config import ConfigError
from apps.runs.evaluation import Scheduled, evaluation_key
from apps.runs.models import Run, WeightVersion
from apps.runs.version_retirement import retire_versions

EVALUATION = {"steps": 0, "groups_per_step": 16, "evaluation": {}}


@pytest.fixture
def published(run):
    """Publish versions 1 to 4 of the run, each after one step."""
    for number in range(1, 5):
        version = WeightVersion.objects.create(
            run=run,
            version=number,
            step=number,
            folder=f"/weights/{number}",
            fingerprint=f"{number:016}",
        )
        version.verify()
        version.publish()
    run.refresh_from_db()
    return run


@pytest.fixture
def of(published, project, plan):
    """Return a function that creates an evaluation of a version of that run."""

    def make(version: int, **changes: object) -> Run:
        told = plan(
            **{**EVALUATION, "evaluation": {"run": published.slug, "version": version}, **changes}
        )
        return Run.create(project=project, slug=f"of-{version}", title="An evaluation", plan=told)

    return make


def problems(plan, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        plan(**{**EVALUATION, **changes})
    return refused.value.problems


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pipeline", [{"operator": "spread"}]),
        ("selection", {"name": "sequential"}),
        ("groups_per_step", 4),
        ("lora", {}),
        ("max_staleness", 3),
        ("algorithm", {"name": "rloo"}),
        ("optimizer", {"learning_rate": 0.5}),
    ],
)
def test_evaluation_refuses_training_settings(plan, field, value):
    assert "does not apply to an evaluation" in problems(plan, **{field: value})[field]


def test_evaluation_has_no_steps_and_other_runs_need_at_least_one(plan):
    assert "trains nothing" in problems(plan, steps=3)["steps"]
    assert "evaluation" in problems(plan, evaluation=None, groups_per_step=2)["steps"]


def test_evaluation_may_have_groups_of_one_rollout(plan):
    assert plan(**EVALUATION, group_size=1).evaluation and not plan(**EVALUATION).evaluation.run


def test_evaluation_without_scorers_or_raters_is_refused(plan):
    assert "add a scorer" in problems(plan, rewards=[])["configuration"]


def test_evaluation_begins_with_the_weights_of_its_version(of, published):
    made = of(3)
    (only,) = made.weight_versions.all()
    assert (only.version, only.folder, only.fingerprint) == (0, "/weights/3", "3".zfill(16))
    assert (made.is_evaluation, made.evaluates.version, made.evaluates.run) == (True, 3, published)
    assert made not in Run.objects.training()


def test_evaluation_without_a_run_uses_the_policys_own_weights(project, policy, taskset, plan):
    made = Run.create(project=project, slug="own", title="own", plan=plan(**EVALUATION))
    assert (made.evaluates, made.weight_versions.get().fingerprint) == (None, policy.fingerprint)


def test_missing_or_retired_version_is_refused(of, published):
    with pytest.raises(ConfigError, match="has no version 9; the newest is 4"):
        of(9)
    published.weight_versions.filter(version=2).update(state="retired")
    with pytest.raises(ConfigError, match="version 2 is retired and its files are deleted"):
        of(2)


def test_weights_of_another_policy_are_refused(of, published, project):
    published.policy.pk, published.policy.slug = None, "other"
    published.policy.save()
    with pytest.raises(ConfigError, match="trains 'tiny': use that one"):
        of(1, policy="other")


def test_weights_folder_is_kept_until_its_evaluation_has_ended(of, published):
    made = of(1)
    made.start()
    Run.objects.filter(pk=published.pk).update(
        config={**published.config, "checkpoints": {"weights": 2}}
    )
    published.refresh_from_db()
    assert [version.version for version in retire_versions(published)] == [2]
    made.complete()
    assert [version.version for version in retire_versions(published)] == [1]
    assert made.weight_versions.get().state == WeightVersion.State.RETIRED


def test_evaluation_draws_each_task_once_even_if_groups_are_dropped(of):
    made = of(1)
    assert groups_allowed(made.pace) == 4
    made.groups_opened = 3
    made.groups_dropped = 2
    assert groups_allowed(made.pace) == 1
    made.groups_opened = 4
    assert groups_allowed(made.pace) == 0


def test_evaluation_may_be_limited_to_the_first_tasks(of, published):
    made = of(1, evaluation={"run": published.slug, "version": 1, "tasks": 3})
    assert (made.tasks_asked, groups_allowed(made.pace)) == (3, 3)


def test_evaluation_key_ignores_weights_and_seed(plan):
    first = evaluation_key(plan(**EVALUATION))
    assert first == evaluation_key(
        plan(**{**EVALUATION, "evaluation": {"run": "other", "version": 3}}, seed=5)
    )
    assert first != evaluation_key(plan(**EVALUATION, group_size=3))
    assert first != evaluation_key(plan(**{**EVALUATION, "evaluation": {"tasks": 2}}))


@pytest.mark.parametrize(
    ("every", "unit", "due"),
    [
        (1, "versions", [0, 1, 2, 3]),
        (2, "versions", [0, 2]),
        (10, "steps", [0, 2]),
        (4, "steps", [0, 1, 2, 3]),
    ],
)
def test_schedule_decides_which_versions_are_evaluated(every, unit, due):
    schedule = Scheduled(taskset="sort", every=every, unit=unit)
    steps = [0, 4, 11, 18]  # of version 0 and those after it
    assert [
        n for n, step in enumerate(steps) if schedule.is_due(n, step, steps[max(n - 1, 0)])
    ] == due


def test_sampling_of_an_evaluation_cannot_change_but_other_settings_can(of):
    made = of(1)
    made.start()
    with pytest.raises(ConfigError, match="all of its tasks alike"):
        made.change_config(None, sampling={"temperature": 0.5})
    made.change_config(None, group_attempts=5)
    assert made.settings.group_attempts == 5


def test_schedules_may_be_changed_during_a_run(run, alice):
    run.change_config(alice, evaluations=[{"taskset": "sort", "every": 2}])
    assert run.settings.evaluations[0].every == 2
