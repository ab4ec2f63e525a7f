"""A run's pipeline in its configuration: read by name, refused by field, and changed while the run
is live.
"""

import pytest

from apps.pipelines.checking import require_known
from apps.runs.config import ConfigError


def test_operators_come_in_the_order_they_are_written(plan):
    steps = [{"operator": "truncated", "options": {"do": "drop"}}, {"operator": "reward_spread"}]
    assert [choice.operator for choice in plan(pipeline=steps).pipeline] == [
        "truncated",
        "reward_spread",
    ]


def test_an_unknown_key_of_a_step_is_told_with_what_was_meant(plan):
    with pytest.raises(ConfigError) as caught:
        plan(pipeline=[{"operator": "truncated", "option": {}}])
    assert "did you mean `options`" in caught.value.problems["pipeline.0.option"]


def test_unknown_operators_and_options_are_told_by_field(plan, project):
    with pytest.raises(ConfigError) as caught:
        require_known(
            plan(
                pipeline=[
                    {"operator": "truncated", "options": {"do": "burn"}},
                    {"operator": "filter"},
                ]
            ),
            project,
        )
    assert set(caught.value.problems) == {"pipeline.0.options.do", "pipeline.1.operator"}


def test_what_samples_no_groups_has_no_pipeline(plan):
    with pytest.raises(ConfigError) as caught:
        plan(algorithm={"name": "sft"}, pipeline=[{"operator": "truncated"}], rewards=[])
    assert "samples no groups" in caught.value.problems["pipeline"]


def test_it_may_be_changed_while_the_run_is_live(run):
    run.change_config(None, pipeline=[{"operator": "truncated"}])
    assert [choice.operator for choice in run.settings.pipeline] == ["truncated"]
    event = run.topic.events.get(kind="config_changed")
    assert (event.payload["before"]["pipeline"], len(event.payload["after"]["pipeline"])) == ([], 1)


@pytest.mark.parametrize(
    "more", [{"environment": {"name": "maze"}}, {"algorithm": {"name": "sft"}, "rewards": []}]
)
def test_loops_are_stopped_where_a_run_samples_answers_of_its_own(plan, more):
    assert plan(sampling={"repeats": {}}).sampling.repeats.times == 8
    with pytest.raises(ConfigError) as caught:
        plan(sampling={"repeats": {}}, **more)
    assert "remove it" in caught.value.problems["sampling.repeats"]
