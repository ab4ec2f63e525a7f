"""Every example is a valid configuration with current names."""

import pytest
from django.conf import settings

from apps.runs.parsing import from_yaml

EXAMPLES = sorted((settings.BASE_DIR / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_each_example_is_a_valid_configuration(path):
    plan = from_yaml(path.read_text(encoding="utf-8"))
    assert bool(plan.steps) != bool(plan.evaluation)


def test_demo_algorithm_has_the_settings_its_examples_were_measured_with():
    for name in ("sort", "tone"):
        algorithm = from_yaml(
            (settings.BASE_DIR / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
        ).algorithm
        assert (
            algorithm.loss.name,
            algorithm.loss.clip_low,
            algorithm.loss.clip_high,
            algorithm.loss.dual_clip,
        ) == (
            "ppo",
            0.2,
            0.28,
            None,
        )
        assert (algorithm.aggregation, algorithm.advantage.scale, algorithm.needs_reference) == (
            "token-mean",
            "group",
            False,
        )
