"""A run says how its updates read the buffer; what contradicts it is refused by field."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.parsing import from_yaml, parse_config, to_yaml
from apps.runs.reading import Reading

GOOD = {"policy": "tiny", "taskset": "sort", "steps": 3, "rewards": [{"scorer": "sort"}]}


def problem(reading: object, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, **changes, "reading": reading})
    return refused.value.problems


def test_a_configuration_without_the_key_reads_as_ever():
    assert parse_config(GOOD).reading == Reading() and Reading().order.name == "fifo"


def test_it_is_the_same_after_a_way_through_yaml():
    plan = parse_config({**GOOD, "reading": {"order": {"name": "priority", "people": 5}}})
    assert from_yaml(to_yaml(plan)) == plan


def test_an_unknown_order_is_refused_with_those_there_are():
    words = problem({"order": "lifo"})["reading.order.name"]
    assert (
        "take one of fifo, freshest, priority, reward_variance, rarity, human_first, weighted"
        in words
    )


def test_an_unknown_option_is_refused_by_the_field_as_it_is_written():
    assert (
        "did you mean `people`"
        in problem({"order": {"name": "priority", "peoples": 1}})["reading.order.peoples"]
    )


@pytest.mark.parametrize("value", [-1, float("nan"), 1001])
def test_a_weight_out_of_bounds_is_refused(value):
    assert "reading.order.age" in problem({"order": {"name": "priority", "age": value}})


REPLAY = {"groups_per_step": 8}


def test_replay_by_name_takes_the_defaults_and_none_is_none():
    plan = parse_config({**GOOD, "groups_per_step": 8, "reading": {"replay": "uniform"}})
    assert (
        plan.reading.replay.max_uses,
        plan.reading.replay.cool_down,
        plan.groups_again_per_step,
    ) == (3, 0, 2)
    assert parse_config({**GOOD, "reading": {"replay": "none"}}).groups_again_per_step == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("share", 0),
        ("share", 0.95),
        ("max_uses", 1),
        ("max_uses", 101),
        ("cool_down", -1),
        ("alpha", -1),
    ],
)
def test_a_number_out_of_bounds_is_refused_by_its_field(field, value):
    assert f"reading.replay.{field}" in problem(
        {"replay": {"name": "prioritized", field: value}}, **REPLAY
    )


def test_a_share_of_less_than_one_group_is_refused():
    assert (
        "less than one of the 4 groups"
        in problem({"replay": {"name": "uniform", "share": 0.2}}, groups_per_step=4)[
            "reading.replay.share"
        ]
    )


def test_a_share_that_is_one_group_to_the_last_digit_is_one():
    plan = parse_config(
        {**GOOD, "groups_per_step": 10, "reading": {"replay": {"name": "uniform", "share": 0.1}}}
    )
    assert plan.groups_again_per_step == 1


def test_a_synchronous_run_has_nothing_to_take_again():
    assert (
        "max_staleness is 0"
        in problem({"replay": "uniform"}, **REPLAY, max_staleness=0)["reading.replay.name"]
    )


def test_several_updates_to_a_version_leave_something_to_take_again():
    assert parse_config(
        {**GOOD, **REPLAY, "max_staleness": 0, "sync_interval": 2, "reading": {"replay": "uniform"}}
    )


def test_a_cool_down_that_outlasts_the_bound_is_refused_with_what_would_do():
    words = problem({"replay": {"name": "uniform", "cool_down": 3}}, **REPLAY, max_staleness=2)[
        "reading.replay.cool_down"
    ]
    assert "older than max_staleness 2" in words and "raise max_staleness to 4" in words


def test_what_a_teacher_gives_no_advantages_to_is_not_prioritized_by_them():
    taught = {
        "algorithm": {
            "name": "on_policy_distill",
            "reference": {"kind": "policy", "policy": "large"},
        }
    }
    assert (
        "set it to uniform"
        in problem({"replay": "prioritized"}, **REPLAY, **taught)["reading.replay.name"]
    )


def test_answers_that_come_one_by_one_have_no_variance():
    alone = {"group_size": 1, "algorithm": "reinforce_plus_plus"}
    assert (
        "one rollout has no variance"
        in problem({"order": "reward_variance"}, **alone)["reading.order.name"]
    )


def test_decay_has_no_limit_of_uses_unless_it_is_told():
    replay = parse_config({**GOOD, **REPLAY, "reading": {"replay": "linear_decay"}}).reading.replay
    assert (replay.decay, replay.max_uses) == (2, 10_000)
    limited = parse_config(
        {**GOOD, **REPLAY, "reading": {"replay": "decay_with_limit"}}
    ).reading.replay
    assert (limited.decay, limited.max_uses, limited.sigma) == (2, 3, 0)


@pytest.mark.parametrize("value", [-1, float("inf")])
def test_noise_that_is_none_is_refused(value):
    assert "reading.replay.sigma" in problem(
        {"replay": {"name": "decay_with_limit", "sigma": value}}, **REPLAY
    )


def test_it_is_fixed_when_a_run_has_begun(run):
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, reading={"replay": {"name": "uniform", "share": 0.5}})
    assert "cannot change once a run has begun" in refused.value.problems["reading.replay.name"]


def test_a_run_that_learns_from_lessons_reads_no_groups():
    lessons = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
    assert "remove it" in problem({"order": "freshest"}, **lessons)["reading"]
