"""A run names the rule by which its draws choose tasks; what contradicts it is refused by field."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.parsing import from_yaml, parse_config, to_yaml
from apps.runs.selection import Shuffle
from tests.serving import SERVED

GOOD = {"policy": "tiny", "taskset": "sort", "steps": 3, "rewards": [{"scorer": "sort"}]}


def problem(selection: object, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, **changes, "selection": selection})
    return refused.value.problems


def test_a_configuration_without_the_key_shuffles():
    assert parse_config(GOOD).selection == Shuffle()


def test_a_name_alone_is_the_rule_with_its_defaults():
    assert parse_config({**GOOD, "selection": "random"}).selection.name == "random"


def test_it_is_the_same_after_a_way_through_yaml():
    plan = parse_config({**GOOD, "selection": "sequential"})
    assert from_yaml(to_yaml(plan)) == plan


def test_an_unknown_rule_is_refused_with_those_there_are():
    assert (
        "take one of sequential, shuffle, random, easy_to_hard"
        in problem("sorted")["selection.name"]
    )


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


POOLS = {"name": "pools", "by": "level"}


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{"up_to": 1}, {"up_to": 2}], "the last takes everything above"),
        ([{}, {}], "every pool but the last"),
        ([{"up_to": 2}, {"up_to": 1}, {}], "must increase"),
        ([{"up_to": 2, "share": 0}, {"share": 0}], "above 0"),
    ],
)
def test_pools_that_are_no_bands_are_refused(pools, words):
    assert words in problem({**POOLS, "pools": pools})["selection"]


def test_a_rule_by_difficulty_names_its_number():
    assert "selection.by" in problem("easy_to_hard")


def test_a_run_over_tasks_without_that_number_is_refused_by_field(new_run):
    with pytest.raises(ConfigError) as refused:
        new_run(selection={"name": "easy_to_hard", "by": "level"})
    assert "4 of 4 tasks of 'sort' have no number 'level'" in refused.value.problems["selection.by"]


def test_a_change_to_a_number_that_is_not_there_is_refused(run):
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, selection={"name": "curriculum", "by": "level"})
    assert "selection.by" in refused.value.problems


def test_a_pool_without_a_task_is_refused(new_run, taskset):
    taskset.tasks.update(meta={"level": 1})
    with pytest.raises(ConfigError) as refused:
        new_run(selection={**POOLS, "pools": [{"up_to": 2}, {}]})
    assert "change `up_to`" in refused.value.problems["selection.pools.1"]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([{"domain": "a"}, {"domain": "a"}], "the same domain"),
        ([{"domain": "a", "share": 0}], "above 0"),
    ],
)
def test_a_mixture_of_nothing_is_refused(parts, words):
    assert words in problem({"name": "mixture", "parts": parts})["selection"]


def test_a_domain_that_no_task_has_is_refused_with_those_there_are(new_run, taskset):
    taskset.tasks.filter(index=0).update(domain="math")
    with pytest.raises(ConfigError) as refused:
        new_run(selection={"name": "mixture", "parts": [{"domain": "math"}, {"domain": "code"}]})
    assert refused.value.problems["selection.parts.1.domain"].endswith("there are '', 'math'")
