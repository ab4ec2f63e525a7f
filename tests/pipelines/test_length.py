"""The length reward: the published numbers, its limits, and its effect on advantages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.buffer.models import Experience
from apps.pipelines.refining import refine
from apps.rewards.length import length_rewards
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.config import ConfigError


@pytest.mark.parametrize(
    ("lengths", "is_right", "rewards"),
    [
        ((100, 200, 300), (True, True, True), (0.5, 0.0, -0.5)),
        ((100, 200, 300), (False, True, False), (0.0, 0.0, -0.5)),
        ((100, 100, 100), (True, False, True), (0.0, 0.0, 0.0)),
    ],
)
def test_length_rewards_equal_the_papers_examples(lengths, is_right, rewards):
    assert tuple(length_rewards(lengths, is_right)) == pytest.approx(rewards)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.booleans()), min_size=1, max_size=16))
def test_length_reward_is_at_most_a_half_and_never_positive_for_wrong_answers(answers):
    rewards = length_rewards(*zip(*answers, strict=True))
    for (length, is_right), reward in zip(answers, rewards, strict=True):
        assert -0.5 <= reward <= 0.5 and (is_right or reward <= 0)
        assert all(
            reward <= other
            for (longer, right), other in zip(answers, rewards, strict=True)
            if longer < length and right
        )


@pytest.fixture
def advantages(new_run, finish):
    """Return advantages by text in the first groups of a run: two right replies and a wrong one."""

    def of(groups: int = 1, **changes) -> list[dict[str, float]]:
        run = new_run(
            group_size=3,
            groups_per_step=1,
            max_staleness=10,
            algorithm={"name": "kimi_opmd"},
            **changes,
        )
        finish(run, ["12345", "123450000", "99"], groups=groups)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        record_verdicts(
            claimed,
            [
                AnsweredQuestion(
                    q, [Verdict(float(q.rollouts[0].text.startswith("12345")), "test")]
                )
                for q in open_questions(claimed)
            ],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        rows = Experience.objects.filter(run=run).order_by("group__draw_index")
        assert {(row.rollout.text, row.reward) for row in rows} == {
            ("12345", 1.0),
            ("123450000", 1.0),
            ("99", 0.0),
        }
        return [
            {row.rollout.text: row.advantage for row in rows if row.group.draw_index == n}
            for n in range(groups)
        ]

    return of


@pytest.mark.django_db
def test_short_right_answer_has_a_larger_advantage_than_a_long_one(advantages):
    (plain,) = advantages()
    assert plain["12345"] == plain["123450000"]
    (found,) = advantages(length_penalty={"weight": 0.5})
    # lengths 5, 9, 2: λ = 0.0714, -0.5 and 0.5, and the wrong reply gets no bonus
    rewards = {"12345": 1 + 0.5 * (0.5 - 3 / 7), "123450000": 1 - 0.25, "99": 0.0}
    mean = sum(rewards.values()) / 3
    assert found == pytest.approx({text: reward - mean for text, reward in rewards.items()})


@pytest.mark.django_db
def test_length_penalty_begins_at_its_step(advantages):
    before, after = advantages(groups=2, length_penalty={"weight": 0.5, "from_step": 1})
    assert before["12345"] == before["123450000"]
    assert after["12345"] > after["123450000"]


def test_advantage_that_compares_beyond_the_group_is_refused(plan):
    with pytest.raises(ConfigError, match="compares more than a group's rewards"):
        plan(algorithm={"name": "reinforce_plus_plus"}, length_penalty={"weight": 0.5})
