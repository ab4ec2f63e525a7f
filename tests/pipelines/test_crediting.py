"""Credit of each row in an update, by the run's configuration, compared with token advantages
written out.
"""

import math
import statistics
from types import SimpleNamespace

import pytest

from apps.pipelines.crediting import CREDITS, JudgedRollout, credit_batch, of_group
from apps.pipelines.deciding import Case, decide_groups
from apps.rewards.combining import Judgement
from apps.rollouts.models import Group, Rollout
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import stretches
from apps.runs.parsing import parse_config
from apps.tasksets.models import Task

GOOD = {
    "policy": "p",
    "taskset": "t",
    "steps": 3,
    "rewards": [{"scorer": "a"}, {"scorer": "b", "weight": 2.0}],
}


def plan(name: str, **advantage: object):
    return parse_config(
        {**GOOD, "algorithm": {"name": name, **({"advantage": advantage} if advantage else {})}}
    )


def tokens(mask, prompt=(1, 2), ids=None):
    ids = tuple(ids or range(len(mask)))
    return Tokens(prompt, ids, (0.0,) * len(mask), tuple(mask), ((0, 0),))


def batch(*rows):
    """Create experiences from (group, reward, mask, advantage so far)."""
    return [
        SimpleNamespace(
            pk=n,
            group_id=group,
            reward=reward,
            advantage=so_far,
            rollout=SimpleNamespace(tokens=own),
        )
        for n, (group, reward, own, so_far) in enumerate(rows)
    ]


FOUR = batch(
    (7, 0.0, tokens([1] * 3), 0.0),
    (7, 1.0, tokens([1] * 1), 0.0),
    (8, 3.0, tokens([1] * 2), 0.0),
    (8, 1.0, tokens([1] * 4), 0.0),
)
REWARDS = [0.0, 1.0, 3.0, 1.0]


def counted(credits):
    return [credits[n].advantage for n in range(len(credits))]


def test_batch_scale_uses_group_means_and_the_batch_deviation():
    deviation = statistics.stdev(REWARDS) + 1e-6
    assert counted(credit_batch(plan("grpo", scale="batch"), FOUR)) == pytest.approx(
        [d / deviation for d in (-0.5, 0.5, 1.0, -1.0)]
    )


def test_rank_penalty_uses_logprobs_of_the_policys_tokens_only():
    likely = Tokens((1,), (5, 6), (-0.1, -9.0), (1, 0), ((0, 0),))
    unlikely = Tokens((1,), (5, 6), (-2.0, -2.0), (1, 1), ((0, 0),))
    rows = batch((7, 1.0, likely, 0.0), (7, 1.0, unlikely, 0.0))
    credits = credit_batch(plan("grpo", rank_penalty=0.4, scale="none"), rows)
    penalized = 1.0 * (1 - 0.4 / 2)  # the more likely rollout has rank 1 of 2
    middle = (penalized + 1.0) / 2
    assert counted(credits) == pytest.approx([penalized - middle, 1.0 - middle])


def test_whitening_of_rewards_counts_each_token_once():
    credits = credit_batch(plan("reinforce_plus_plus"), FOUR)
    written = [0.0] * 3 + [1.0] + [3.0] * 2 + [1.0] * 4
    mean = statistics.fmean(written)
    root = math.sqrt(statistics.variance(written) + 1e-8)
    assert counted(credits) == pytest.approx([(r - mean) / root for r in REWARDS])
    assert all(credit.tokens is None for credit in credits.values())


def test_discount_gives_the_last_token_the_largest_advantage():
    credits = credit_batch(plan("reinforce_plus_plus", gamma=0.5), FOUR)
    returns = [[0.0] * 3, [1.0], [1.5, 3.0], [0.125, 0.25, 0.5, 1.0]]
    written = [g for row in returns for g in row]
    mean = statistics.fmean(written)
    root = math.sqrt(statistics.variance(written) + 1e-8)
    assert credits[3].tokens == pytest.approx([(g - mean) / root for g in returns[3]])
    assert credits[3].advantage == pytest.approx(statistics.fmean(credits[3].tokens))
    assert credits[0].tokens is None


def test_gae_without_a_discount_equals_the_whitened_reward():
    assert counted(credit_batch(plan("ppo"), FOUR)) == pytest.approx(
        counted(credit_batch(plan("reinforce_plus_plus"), FOUR))
    )


def test_unwhitened_gae_decreases_with_the_distance_from_the_reward():
    credits = credit_batch(plan("ppo", lam=0.5, whiten=False), FOUR)
    assert credits[2].tokens == pytest.approx((1.5, 3.0)) and credits[3].tokens == pytest.approx(
        (0.125, 0.25, 0.5, 1.0)
    )


def test_tokens_not_written_by_the_policy_take_no_discount_and_get_zero():
    rows = batch((1, 1.0, tokens([1, 0, 0, 1]), 0.0), (2, 0.0, tokens([1]), 0.0))
    assert credit_batch(plan("ppo", gamma=0.5, whiten=False), rows)[0].tokens == pytest.approx(
        (0.5, 0.0, 0.0, 1.0)
    )


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "ppo"])
def test_rollout_that_a_person_wrote_alone_gets_no_credit(name):
    rows = batch(
        (1, 1.0, tokens([0, 0]), 0.0), (2, 0.0, tokens([1]), 0.0), (3, 1.0, tokens([1, 1]), 0.0)
    )
    credits = credit_batch(plan(name, gamma=0.9), rows)
    assert credits[0].advantage == 0 and credits[0].tokens is None
    assert credits[2].advantage > credits[1].advantage


def test_turns_are_the_spans_written_by_the_policy():
    assert stretches([1, 1, 0, 1, 0, 0, 1]) == [(0, 2), (3, 4), (6, 7)]
    assert stretches([0, 1]) == [(1, 2)] and stretches([0]) == [(0, 0)]


def test_turn_is_compared_with_turns_that_have_the_same_preceding_tokens():
    first = tokens([1, 0, 1], ids=(5, 6, 7))
    second = tokens([1, 0, 1], ids=(5, 6, 8))
    third = tokens([1, 0, 1], ids=(4, 6, 8))
    rows = batch((1, 1.0, first, 0.0), (1, 0.0, second, 0.0), (1, 0.0, third, 0.0))
    credits = credit_batch(plan("gigpo"), rows)
    episode = 2 / 3
    beginning = 2 / 3
    after_five = 0.5
    assert credits[0].tokens == pytest.approx(
        (episode + beginning, 0.0, episode + after_five), rel=1e-4
    )
    assert credits[1].tokens == pytest.approx((-2 / 3, 0.0, -1 / 3 - 0.5), rel=1e-4)
    assert credits[2].tokens == pytest.approx((-2 / 3, 0.0, -1 / 3), rel=1e-4)


def test_gdpo_whitens_the_group_advantages_over_the_batch():
    rows = batch(*[(1, 0.0, tokens([1]), so_far) for so_far in (1.0, -1.0, 3.0, -3.0)])
    assert counted(credit_batch(plan("gdpo"), rows)) == pytest.approx(
        [s / statistics.stdev([1, -1, 3, -3]) for s in (1, -1, 3, -3)], rel=1e-5
    )


def judged(*rewards, **by_scorer):
    return [
        JudgedRollout(r, {name: values[n] for name, values in by_scorer.items()})
        for n, r in enumerate(rewards)
    ]


def test_gdpo_excludes_a_rollout_with_a_failed_scorer_even_if_people_rated_it():
    task = Task(prompt=[{"role": "user", "content": "Count"}])
    group = Group(pk=1, run_id=1, task=task, draw_index=0)
    rollouts = [Rollout(pk=pk, text="one", first_version=0) for pk in (1, 2, 3)]
    judgements = {
        1: [Judgement("a", 0.0), Judgement("b", 1.0)],
        2: [Judgement("a", 1.0), Judgement("b", 0.0)],
        3: [Judgement("a", 1.0), Judgement("b", None), Judgement("stars", 1.0, is_human=True)],
    }
    chosen = plan("gdpo", whiten=False)
    [decision] = decide_groups(chosen, [Case(group, rollouts, judgements, 0)])
    assert [sample.rollout for sample in decision.learned] == [1, 2]


def test_gdpo_applies_scorer_weights_to_normalised_rewards():
    scores = of_group(plan("gdpo", whiten=False), judged(0.0, 0.0, a=[0.0, 1.0], b=[10.0, 0.0]))
    root = statistics.stdev([0, 1])
    assert scores == pytest.approx(
        [-0.5 / root + 2 * 0.5 / root, 0.5 / root - 2 * 0.5 / root], rel=1e-5
    )


@pytest.mark.parametrize("name", ["dapo", "ranking"])
def test_group_without_a_learning_signal_gives_none(name):
    assert of_group(plan(name, std_threshold=0.0), judged(1.0, 1.0)) is None


def test_std_threshold_applies_also_with_batch_scale():
    assert of_group(plan("grpo", scale="batch", std_threshold=0.0), judged(1.0, 1.0)) is None


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_std_threshold_of_a_ranking_is_that_of_its_ranks(scale):
    close = plan("ranking", scale=scale, std_threshold=0.1)
    assert of_group(close, judged(0.50, 0.51)) is not None
    assert of_group(close, judged(0.5, 0.5)) is None


def test_step_norm_divides_the_advantage_by_the_number_of_turns():
    rollouts = [JudgedRollout(0.0, {}, turns=1), JudgedRollout(1.0, {}, turns=4)]
    plain = of_group(plan("multi_step_grpo"), rollouts)
    assert of_group(plan("multi_step_grpo", step_norm=True), rollouts) == pytest.approx(
        [plain[0], plain[1] / 4]
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rloo", [-1.0, 1.0]),
        ("opmd", [-0.5, 0.5]),
        ("asymre", [-0.4, 0.6]),
        ("topr", [0.0, 1.0]),
        ("raft", [0.0, 1.0]),
        ("dr_grpo", [-0.5, 0.5]),
        ("rec", [-0.5, 0.5]),
        ("gigpo", [-0.5, 0.5]),
        ("ppo", [0.0, 1.0]),
        ("reinforce_plus_plus", [0.0, 1.0]),
    ],
)
def test_group_advantage_has_the_expected_value(name, expected):
    assert of_group(plan(name), judged(0.0, 1.0)) == pytest.approx(expected)


def test_distillation_gives_zero_advantages_within_the_group():
    distilled = parse_config(
        {**GOOD, "algorithm": {"name": "jsd", "reference": {"policy": "large"}}}
    )
    assert of_group(distilled, judged(0.0, 1.0)) == [0.0, 0.0]


def test_every_advantage_that_needs_the_batch_has_a_credit_function():
    from apps.runs.algorithms import advantages as sections

    needy = {
        section.model_fields["name"].default
        for section in vars(sections).values()
        if isinstance(section, type)
        and "name" in getattr(section, "model_fields", {})
        and "plugin" not in section.model_fields
        and (
            section().over_batch
            or ("scale" in section.model_fields and section.model_fields["name"].default != "gigpo")
        )
    }
    assert needy == set(CREDITS)
