"""A run configures how its steps read the buffer; contradictions are refused by field."""

import pytest

from apps.runs.config import ConfigError
from apps.runs.parsing import from_yaml, parse_config, to_yaml
from apps.runs.reading import Reading

GOOD = {"policy": "tiny", "taskset": "sort", "steps": 3, "rewards": [{"scorer": "sort"}]}


def problem(reading: object, **changes: object) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        parse_config({**GOOD, **changes, "reading": reading})
    return refused.value.problems


def test_default_reading_order_is_fifo():
    assert parse_config(GOOD).reading == Reading() and Reading().order.name == "fifo"


def test_reading_survives_a_round_trip_through_yaml():
    plan = parse_config({**GOOD, "reading": {"order": {"name": "priority", "people": 5}}})
    assert from_yaml(to_yaml(plan)) == plan


def test_unknown_order_is_refused_with_the_list_of_orders():
    words = problem({"order": "lifo"})["reading.order.name"]
    assert (
        "take one of fifo, freshest, priority, reward_variance, rarity, human_first, weighted"
        in words
    )


def test_unknown_option_is_refused_under_its_full_field_name():
    assert (
        "did you mean `people`"
        in problem({"order": {"name": "priority", "peoples": 1}})["reading.order.peoples"]
    )


@pytest.mark.parametrize("value", [-1, float("nan"), 1001])
def test_weight_out_of_range_is_refused(value):
    assert "reading.order.age" in problem({"order": {"name": "priority", "age": value}})


REPLAY = {"groups_per_step": 8}


def test_replay_given_by_name_has_defaults_and_none_disables_it():
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
def test_number_out_of_range_is_refused_with_its_field(field, value):
    assert f"reading.replay.{field}" in problem(
        {"replay": {"name": "prioritized", field: value}}, **REPLAY
    )


def test_replay_share_of_less_than_one_group_is_refused():
    assert (
        "less than one of the 4 groups"
        in problem({"replay": {"name": "uniform", "share": 0.2}}, groups_per_step=4)[
            "reading.replay.share"
        ]
    )


def test_replay_share_of_exactly_one_group_is_accepted():
    plan = parse_config(
        {**GOOD, "groups_per_step": 10, "reading": {"replay": {"name": "uniform", "share": 0.1}}}
    )
    assert plan.groups_again_per_step == 1


def test_replay_is_refused_for_a_synchronous_run():
    assert (
        "max_staleness is 0"
        in problem({"replay": "uniform"}, **REPLAY, max_staleness=0)["reading.replay.name"]
    )


def test_replay_is_allowed_if_several_steps_share_a_version():
    assert parse_config(
        {**GOOD, **REPLAY, "max_staleness": 0, "sync_interval": 2, "reading": {"replay": "uniform"}}
    )


def test_cool_down_longer_than_the_staleness_bound_is_refused_with_a_remedy():
    words = problem({"replay": {"name": "uniform", "cool_down": 3}}, **REPLAY, max_staleness=2)[
        "reading.replay.cool_down"
    ]
    assert "older than max_staleness 2" in words and "raise max_staleness to 4" in words


def test_prioritized_replay_is_refused_for_distillation_without_advantages():
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


def test_variance_order_is_refused_for_groups_of_one_rollout():
    alone = {"group_size": 1, "algorithm": "reinforce_plus_plus"}
    assert (
        "one rollout has no variance"
        in problem({"order": "reward_variance"}, **alone)["reading.order.name"]
    )


def test_linear_decay_has_no_limit_of_uses_but_decay_with_limit_has():
    replay = parse_config({**GOOD, **REPLAY, "reading": {"replay": "linear_decay"}}).reading.replay
    assert (replay.decay, replay.max_uses) == (2, 10_000)
    limited = parse_config(
        {**GOOD, **REPLAY, "reading": {"replay": "decay_with_limit"}}
    ).reading.replay
    assert (limited.decay, limited.max_uses, limited.sigma) == (2, 3, 0)


@pytest.mark.parametrize("value", [-1, float("inf")])
def test_invalid_noise_is_refused(value):
    assert "reading.replay.sigma" in problem(
        {"replay": {"name": "decay_with_limit", "sigma": value}}, **REPLAY
    )


def test_replay_cannot_change_once_a_run_has_begun(run):
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, reading={"replay": {"name": "uniform", "share": 0.5}})
    assert "cannot change once a run has begun" in refused.value.problems["reading.replay.name"]


def test_reading_is_refused_for_a_run_that_trains_on_a_snapshot():
    lessons = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
    assert "remove it" in problem({"order": "freshest"}, **lessons)["reading"]
