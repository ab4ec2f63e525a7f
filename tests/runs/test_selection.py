"""A run configures how its draws select tasks; contradictions are refused by field."""

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


def test_default_selection_is_shuffle():
    assert parse_config(GOOD).selection == Shuffle()


def test_selection_given_by_name_has_its_defaults():
    assert parse_config({**GOOD, "selection": "random"}).selection.name == "random"


def test_selection_survives_a_round_trip_through_yaml():
    plan = parse_config({**GOOD, "selection": "sequential"})
    assert from_yaml(to_yaml(plan)) == plan


def test_unknown_selection_is_refused_with_the_list_of_selections():
    assert (
        "take one of sequential, shuffle, random, easy_to_hard"
        in problem("sorted")["selection.name"]
    )


def test_unknown_option_is_refused_under_its_full_field_name():
    assert "selection.epochs" in problem({"name": "shuffle", "epochs": 3})


def test_selection_is_refused_for_a_serving_run():
    assert "remove `selection`" in problem("random", **SERVED, serve={})["selection.name"]


def test_selection_is_refused_for_a_run_that_trains_on_a_snapshot():
    lessons = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
    assert "remove it" in problem("random", **lessons)["selection"]


def test_selection_may_change_during_a_run(run):
    run.change_config(None, selection={"name": "sequential"})
    assert run.settings.selection.name == "sequential"


POOLS = {"name": "pools", "scale": "level"}


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{"max_value": 1}, {"max_value": 2}], "the last takes everything above"),
        ([{}, {}], "every pool but the last"),
        ([{"max_value": 2}, {"max_value": 1}, {}], "must increase"),
        ([{"max_value": 2, "share": 0}, {"share": 0}], "above 0"),
    ],
)
def test_invalid_pools_are_refused(pools, words):
    assert words in problem({**POOLS, "pools": pools})["selection"]


def test_selection_by_difficulty_needs_the_name_of_its_number():
    assert "selection.scale" in problem("easy_to_hard")


def test_selection_by_a_number_that_tasks_lack_is_refused_with_its_field(new_run):
    with pytest.raises(ConfigError) as refused:
        new_run(selection={"name": "easy_to_hard", "scale": "level"})
    assert (
        "4 of 4 tasks of 'sort' have no number 'level'" in refused.value.problems["selection.scale"]
    )


def test_change_to_a_number_that_tasks_lack_is_refused(run):
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, selection={"name": "curriculum", "scale": "level"})
    assert "selection.scale" in refused.value.problems


def test_pool_without_tasks_is_refused(new_run, taskset):
    taskset.tasks.update(meta={"level": 1})
    with pytest.raises(ConfigError) as refused:
        new_run(selection={**POOLS, "pools": [{"max_value": 2}, {}]})
    assert "change `max_value`" in refused.value.problems["selection.pools.1"]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([{"domain": "a"}, {"domain": "a"}], "the same domain"),
        ([{"domain": "a", "share": 0}], "above 0"),
    ],
)
def test_invalid_mixture_is_refused(parts, words):
    assert words in problem({"name": "mixture", "parts": parts})["selection"]


def test_domain_without_tasks_is_refused_with_the_existing_domains(new_run, taskset):
    taskset.tasks.filter(index=0).update(domain="math")
    with pytest.raises(ConfigError) as refused:
        new_run(selection={"name": "mixture", "parts": [{"domain": "math"}, {"domain": "code"}]})
    assert refused.value.problems["selection.parts.1.domain"].endswith("there are '', 'math'")
