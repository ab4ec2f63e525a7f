"""Settings that may change during a run take effect; others are refused."""

import pytest

from apps.runs.changing import flat, knobs_of_update
from apps.runs.config import ConfigError
from apps.runs.models import Run

TRUST = {"accuracy": 0.8, "kappa": None, "order": None, "min_labels": 20, "pause": False}


def refused(run: Run, **fields: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as error:
        run.change_config(None, **fields)
    return error.value.problems


@pytest.mark.parametrize(
    "fields",
    [
        {"people": {"deadline_s": 5}},
        {"max_staleness": 4},
        {"group_attempts": 1},
        {"sampling": {"max_tokens": 9}},
        {"sampling": {"temperature": 0.5}},
        {"optimizer": {"learning_rate": 1e-3}},
        {"checkpoints": {"weights": 3}},
        {
            "rewards": [
                {"scorer": "sort", "weight": 0.5, "options": {}, "domains": [], "trust": None}
            ]
        },
        {
            "rewards": [
                {"scorer": "sort", "weight": 1.0, "options": {}, "domains": [], "trust": TRUST}
            ]
        },
    ],
)
def test_fields_that_workers_reread_may_be_changed(run, fields):
    run.change_config(None, **fields)
    assert flat(fields).items() <= flat(run.config).items()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"optimizer": {"weight_decay": 0.1}}, "optimizer.weight_decay"),
        ({"algorithm": {"entropy": {"coefficient": 0.1}}}, "algorithm.entropy.coefficient"),
        ({"algorithm": {"loss": {"clip_high": 0.5}}}, "algorithm.loss.clip_high"),
        ({"algorithm": {"advantage": {"scale": "none"}}}, "algorithm.advantage.scale"),
        ({"checkpoints": {"keep": 3}}, "checkpoints.keep"),
        ({"engine": "vllm"}, "engine"),
        ({"group_size": 4}, "group_size"),
        ({"groups_per_step": 4}, "groups_per_step"),
        ({"sync_interval": 2}, "sync_interval"),
        ({"steps": 99}, "steps"),
        ({"seed": 1}, "seed"),
        ({"policy": "other"}, "policy"),
    ],
)
def test_fields_fixed_at_the_start_are_refused_by_name(run, fields, name):
    before = run.config
    problems = refused(run, **fields)
    assert set(problems) == {name} and "stop this run and create another" in problems[name]
    assert Run.objects.get().config == before


def test_section_with_one_refused_field_changes_nothing(run):
    assert set(refused(run, sampling={"max_tokens": 9, "older_segments": "leave_out"})) == {
        "sampling.older_segments"
    }
    assert Run.objects.get().settings.sampling.max_tokens == 64


def test_kl_coefficient_without_an_estimator_is_refused(new_run):
    run = new_run(algorithm={"name": "grpo", "kl": {"estimator": "none", "coefficient": 0.0}})
    assert "without an estimator" in str(refused(run, algorithm={"kl": {"coefficient": 0.1}}))


def test_temperature_that_vllm_would_change_is_refused(new_run):
    problems = refused(new_run(engine="auto"), sampling={"temperature": 0.001})
    assert "0.01 or more" in problems["sampling.temperature"]
    new_run(engine="transformers").change_config(None, sampling={"temperature": 0.001})


def test_steps_use_the_changed_settings(run):
    run.change_config(None, optimizer={"learning_rate": 0.02}, reason="too slow")
    assert knobs_of_update(run.settings)["optimizer.learning_rate"] == 0.02
    assert run.topic.events.get(kind="config_changed").payload["reason"] == "too slow"


def test_saving_equal_values_with_one_change_is_accepted(run):
    run.change_config(None, **{**run.config, "max_staleness": 2})
    assert run.settings.max_staleness == 2


def test_paused_run_counts_as_begun(run):
    run.pause()
    assert set(refused(run, seed=1)) == {"seed"}


def test_changing_the_scorers_is_refused(run):
    assert (
        "cannot change its scorers"
        in refused(run, rewards=[{"scorer": "sort"}, {"scorer": "tone"}])["rewards"]
    )


def test_maximum_length_is_fixed_if_the_loss_divides_by_it(new_run):
    run = new_run(algorithm={"name": "dr_grpo"})
    assert (
        "seq-mean-token-sum-norm" in refused(run, sampling={"max_tokens": 9})["sampling.max_tokens"]
    )


def test_changed_algorithm_starts_from_its_own_defaults(project, policy, taskset, plan):
    run = Run.create(
        project=project,
        slug="new",
        title="New",
        plan=plan(algorithm={"name": "grpo", "loss": {"clip_low": 0.1}}),
    )
    run.change_config(None, algorithm={"name": "gspo"})
    assert (run.settings.algorithm.loss.name, run.settings.algorithm.loss.clip_low) == (
        "gspo",
        3e-4,
    )


def test_changed_loss_starts_from_its_own_defaults(project, policy, taskset, plan):
    run = Run.create(
        project=project, slug="new", title="New", plan=plan(algorithm={"loss": {"clip_low": 0.1}})
    )
    run.change_config(None, algorithm={"loss": {"name": "sapo"}})
    assert (
        run.settings.algorithm.loss.name == "sapo" and run.settings.algorithm.kl.estimator == "k3"
    )


def test_algorithm_cannot_change_once_a_run_has_begun(run):
    problems = refused(run, algorithm={"name": "gspo"})
    assert "algorithm.name" in problems and all(
        "stop this run" in words for words in problems.values()
    )


def test_run_that_has_not_begun_accepts_changes_but_no_other_taskset(
    project, policy, taskset, plan
):
    run = Run.create(project=project, slug="new", title="New", plan=plan())
    run.change_config(None, optimizer={"learning_rate": 1e-3}, steps=3)
    assert (run.settings.optimizer.learning_rate, run.planned_steps) == (1e-3, 3)
    assert set(refused(run, taskset="other")) == {"taskset"}


def test_ended_run_cannot_be_changed(run):
    run.stop()
    assert "is stopped" in refused(run, people={"simulated": True})["configuration"]


def test_an_unknown_field_is_refused(run):
    assert "did you mean `max_staleness`" in refused(run, max_stalenes=1)["max_stalenes"]
