"""Judged groups for the refiner."""

import pytest

from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout


@pytest.fixture
def judge(finish):
    """Finish groups whose rollouts get these rewards, one tuple per group, and refine them; `stops`
    are stop reasons by place in the group.
    """

    def judge_groups(run, *groups, stops=None):
        opened = finish(
            run, [str(n) * 4 for n in range(run.settings.group_size)], groups=len(groups)
        )
        for place, reason in (stops or {}).items():
            Rollout.objects.filter(group__in=opened, sample_index=place).update(stop_reason=reason)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        rewards = {group.pk: values for group, values in zip(opened, groups, strict=True)}
        questions = open_questions(claimed)
        record_verdicts(
            claimed,
            [AnsweredQuestion(q, [Verdict(_reward(rewards, q), "test")]) for q in questions],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        return [Group.objects.get(pk=group.pk) for group in opened]

    return judge_groups


def _reward(rewards, question):
    return rewards[Rollout.objects.get(pk=question.rollout_ids[0]).group_id][
        int(question.rollouts[0].text[0])
    ]
