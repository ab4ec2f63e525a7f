"""Runs stored with TRL's loss type and clips go on learning as they did."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps

from apps.runs.config import parse
from apps.runs.models import Run

migration = import_module("apps.runs.migrations.0003_algorithms_by_name")
OLD = {
    "name": "grpo", "advantage": {"name": "grpo", "scale": "none"}, "loss": "dr_grpo", "epsilon_low": 0.1, "epsilon_high": 0.3,
    "beta": 0.02,
}  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "aggregation"),
    [("dapo", "token-mean"), ("grpo", "seq-mean-token-mean"), ("bnpo", "token-mean"), ("dr_grpo", "seq-mean-token-sum-norm")],
)
def test_a_loss_type_of_trl_becomes_its_aggregation(loss, aggregation):
    assert migration.rewritten({**OLD, "loss": loss})["aggregation"] == aggregation


def test_a_stored_run_of_before_is_read_after_the_migration(run):
    Run.objects.filter(pk=run.pk).update(config={**run.config, "algorithm": OLD})
    migration.forward(apps, SimpleNamespace())
    algorithm = Run.objects.get(pk=run.pk).settings.algorithm
    assert (algorithm.loss.name, algorithm.loss.clip_low, algorithm.loss.clip_high, algorithm.loss.dual_clip) == (
        "ppo",
        0.1,
        0.3,
        None,
    )
    assert (algorithm.advantage.scale, algorithm.kl.estimator, algorithm.kl.coefficient) == ("none", "k3", 0.02)


def test_a_run_without_a_kl_keeps_no_reference_model(run):
    Run.objects.filter(pk=run.pk).update(config={**run.config, "algorithm": {**OLD, "beta": 0.0}})
    migration.forward(apps, SimpleNamespace())
    assert not Run.objects.get(pk=run.pk).settings.algorithm.needs_reference


def test_a_run_of_today_is_left_as_it_is(run):
    before = Run.objects.get(pk=run.pk).config
    migration.forward(apps, SimpleNamespace())
    assert Run.objects.get(pk=run.pk).config == before and parse(before)
