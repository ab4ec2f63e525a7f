"""A run names the rule by which its draws choose tasks; what contradicts it is refused by field."""

import pytest

from apps.runs.config import ConfigError, from_yaml, parse, to_yaml
from apps.runs.selection import Shuffle
from tests.serving import SERVED

GOOD = {"policy": "tiny", "taskset": "sort", "steps": 3, "rewards": [{"scorer": "sort"}]}


def problem(selection: object, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse({**GOOD, **changes, "selection": selection})
    return refused.value.problems


def test_a_configuration_without_the_key_shuffles():
    assert parse(GOOD).selection == Shuffle()


def test_a_name_alone_is_the_rule_with_its_defaults():
    assert parse({**GOOD, "selection": "random"}).selection.name == "random"


def test_it_is_the_same_after_a_way_through_yaml():
    plan = parse({**GOOD, "selection": "sequential"})
    assert from_yaml(to_yaml(plan)) == plan


def test_an_unknown_rule_is_refused_with_those_there_are():
    assert "take one of sequential, shuffle, random" in problem("sorted")["selection.name"]


def test_an_unknown_option_is_refused_by_the_field_as_it_is_written():
    assert "selection.epochs" in problem({"name": "shuffle", "epochs": 3})


def test_a_run_that_serves_draws_nothing():
    assert "remove `selection`" in problem("random", **SERVED, serve={})["selection.name"]


def test_a_run_that_learns_from_lessons_draws_nothing():
    lessons = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
    assert "remove it" in problem("random", **lessons)["selection"]


def test_another_rule_may_be_taken_while_the_run_goes_on(run):
    run.change_config(None, selection={"name": "sequential"})
    assert run.settings.selection.name == "sequential"
