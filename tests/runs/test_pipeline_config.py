"""A run's pipeline in its configuration: read by name, refused by field, and changed during the
run.
"""

import pytest

from apps.pipelines.checking import require_known
from apps.runs.config import ConfigError


def test_operators_keep_their_configured_order(plan):
    steps = [
        {"operator": "truncated", "options": {"action": "drop"}},
        {"operator": "reward_spread"},
    ]
    assert [choice.operator for choice in plan(pipeline=steps).pipeline] == [
        "truncated",
        "reward_spread",
    ]


def test_error_for_an_unknown_key_of_an_operator_suggests_the_right_one(plan):
    with pytest.raises(ConfigError) as caught:
        plan(pipeline=[{"operator": "truncated", "option": {}}])
    assert "did you mean `options`" in caught.value.problems["pipeline.0.option"]


def test_unknown_operators_and_options_are_refused_by_field(plan, project):
    with pytest.raises(ConfigError) as caught:
        require_known(
            plan(
                pipeline=[
                    {"operator": "truncated", "options": {"action": "burn"}},
                    {"operator": "filter"},
                ]
            ),
            project,
        )
    assert set(caught.value.problems) == {"pipeline.0.options.action", "pipeline.1.operator"}


def test_run_that_samples_no_groups_cannot_have_a_pipeline(plan):
    with pytest.raises(ConfigError) as caught:
        plan(algorithm={"name": "sft"}, pipeline=[{"operator": "truncated"}], rewards=[])
    assert "samples no groups" in caught.value.problems["pipeline"]


def test_pipeline_may_be_changed_during_a_run(run):
    run.change_config(None, pipeline=[{"operator": "truncated"}])
    assert [choice.operator for choice in run.settings.pipeline] == ["truncated"]
    event = run.topic.events.get(kind="config_changed")
    assert (event.payload["before"]["pipeline"], len(event.payload["after"]["pipeline"])) == ([], 1)


@pytest.mark.parametrize(
    "more", [{"environment": {"name": "maze"}}, {"algorithm": {"name": "sft"}, "rewards": []}]
)
def test_loop_detection_is_refused_for_runs_that_sample_no_single_replies(plan, more):
    assert plan(sampling={"repeats": {}}).sampling.repeats.min_count == 8
    with pytest.raises(ConfigError) as caught:
        plan(sampling={"repeats": {}}, **more)
    assert "remove it" in caught.value.problems["sampling.repeats"]
