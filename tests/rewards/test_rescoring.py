"""Which rollouts are rescored, and that the scorers are validated like a run's."""

import pytest

from apps.buffer.models import Experience, StepItem
from apps.rewards.models import Rescored, Rescoring, Reward
from apps.rewards.rescoring.asking import planned, scorers_in, start_rescoring
from apps.rewards.rescoring.choosing import Chosen, list_chosen_groups
from apps.rewards.rescoring.comparing import ComparedGroup, classify_change, has_signal
from apps.rollouts.models import Group
from apps.runs.config import ConfigError
from apps.runs.models import TrainStep
from apps.tasksets.models import Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(new_run, finish):
    """Create four judged groups of two, the nth trained in update n, and a fifth that is still
    being scored.
    """
    run = new_run(max_staleness=9)
    groups = finish(run, groups=5)
    for number, group in enumerate(groups[:4], start=1):
        Group.objects.filter(pk=group.pk).update(state=Group.State.ADMITTED)
        step = TrainStep.objects.create(
            run=run, number=number, version=0, fence=1, state=TrainStep.State.COMMITTED
        )
        rollout = group.rollouts.first()
        learned = Experience.objects.create(
            run=run, group=group, rollout=rollout, reward=1, advantage=1, weight_version=0
        )
        StepItem.objects.create(step=step, experience=learned, position=0)
        Reward.record(rollout, Reward.Source.RULE, "sort", number / 10)
    return run


def chosen(run, **said: object) -> list[int]:
    """Return the chosen groups by their draw index."""
    found = [group for group, _ in list_chosen_groups(run, Chosen.read(said))]
    return [Group.objects.get(pk=pk).draw_index for pk in found]


def test_all_judged_groups_are_chosen_by_default(stored):
    assert chosen(stored) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("said", "draws"),
    [
        ({"from_step": 2, "to_step": 3}, [1, 2]),
        ({"to_step": 1}, [0]),
        ({"scorer": "sort", "low": 0.3}, [2, 3]),
        ({"scorer": "sort", "low": 0.15, "high": 0.3, "from_step": 3}, [2]),
        ({"scorer": "math"}, []),
        ({"limit": 5}, [2, 3]),
        ({"limit": 1}, []),
        ({"domain": "digits"}, [1, 3]),
    ],
)
def test_each_part_of_the_filter_narrows_the_choice(stored, said, draws):
    for task in Task.objects.filter(taskset=stored.taskset):
        odd = Group.objects.filter(run=stored, task=task, draw_index__in=(1, 3)).exists()
        Task.objects.filter(pk=task.pk).update(domain="digits" if odd else "")
    assert chosen(stored, **said) == draws


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"from_step": -1}, "from_step"),
        ({"low": float("nan"), "scorer": "sort"}, "low"),
        ({"from_step": 3, "to_step": 2}, "filter"),
        ({"low": 1.0}, "filter"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_filter_is_refused_with_its_field(said, field):
    with pytest.raises(ConfigError) as refused:
        Chosen.read(said)
    assert list(refused.value.problems) == [field]


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ("- {scorer: mth}", "rewards.0.scorer", "no scorer 'mth'"),
        (
            "- {scorer: length, options: {rite_by: sort}}",
            "rewards.0.options.rite_by",
            "Extra inputs",
        ),
        ("- {scorer: sort, wight: 2}", "rewards.0.wight", "did you mean `weight`?"),
        ("- {scorer: sort}\n- {scorer: sort}", "rewards", "is listed twice"),
        ("rewards: 3", "rewards", "must be a list"),
        ("[]", "rewards", "must be a list"),
        ("scorer: sort", "rewards", "must be a list"),
        ('- {scorer: "s\\0t"}', "rewards", "cannot be stored"),
        ("- {scorer: sort, weight: .nan}", "rewards", "cannot be stored"),
        ("- {scorer: sort, options: {word: 2021-13-45}}", "configuration", "not valid YAML"),
        ("- {scorer: sort", "configuration", "not valid YAML"),
        ("- &a {scorer: sort}\n- *a", "configuration", "aliases are not allowed"),
    ],
)
def test_invalid_scorers_are_refused_with_the_field_of_the_run(run, text, field, why):
    with pytest.raises(ConfigError) as refused:
        planned(run, scorers_in(text))
    assert why in refused.value.problems[field]


def test_scorers_may_be_listed_under_rewards_as_in_a_run_file(run):
    assert (
        planned(run, scorers_in("rewards:\n  - {scorer: sort, weight: 0.5}")).rewards[0].weight
        == 0.5
    )


def test_rescoring_stores_the_request_and_the_runs_own_scorers(stored, alice):
    again = start_rescoring(stored, [{"scorer": "length"}], Chosen(from_step=2), by=alice)
    assert (again.names, [choice["scorer"] for choice in again.compared_with]) == (
        ["length"],
        ["sort"],
    )
    assert Chosen.read(again.chosen) == Chosen(from_step=2)
    assert (again.groups, again.rollouts, again.state, again.by) == (
        3,
        6,
        Rescoring.State.WAITING,
        alice,
    )


@pytest.mark.parametrize(
    ("before", "after", "fate", "size"),
    [
        (0.5, 0.75, "higher", 0.25),
        (0.5, 0.25, "lower", 0.25),
        (0.1 + 0.2, 0.3, "same", 0),
        (None, 0.0, "gained", 0),
        (0.0, None, "lost", 0),
        (None, None, "none", 0),
    ],
)
def test_changes_of_a_reward_are_classified_with_their_size(before, after, fate, size):
    assert classify_change(before, after) == (fate, size)


@pytest.mark.parametrize(
    ("before", "after", "other_best"),
    [
        ((1, 0), (0, 1), True),
        ((1, 1), (0, 1), False),
        ((1, 0), (1, 1), False),
        ((1, 0), (None, 0), True),
        ((None, None), (0, 1), False),
        ((1, 0), (None, None), False),
    ],
)
def test_best_rollout_changed_if_none_of_the_new_best_was_best_before(before, after, other_best):
    rows = [
        Rescored(rollout_id=n, before=b, after=a)
        for n, (b, a) in enumerate(zip(before, after, strict=True))
    ]
    assert ComparedGroup(rows).other_best == other_best


def test_group_has_a_signal_if_its_rewards_differ():
    assert (
        has_signal({1: 0.0, 2: 1.0})
        and not has_signal({1: 0.3, 2: 0.1 + 0.2})
        and not has_signal({})
    )
