"""Fixtures that bring groups into the buffer."""

from collections.abc import Callable

import pytest

from apps.buffer.models import commit_step, plan_step
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Run, TrainStep, WeightVersion


@pytest.fixture
def judged(finish, judge_claimed) -> Callable[..., list[Group]]:
    """Create refined groups with these rewards, one for each rollout, sampled by a version; in the
    order of their draws.
    """

    def make(run: Run, *rewards: tuple[float, ...], version: int | None = None) -> list[Group]:
        groups = finish(run, ["12345"], groups=len(rewards), version=version)
        assert len(groups) == len(rewards), "the run's pace does not allow this many groups"
        values = {
            pk: value
            for group, own in zip(groups, rewards, strict=True)
            for pk, value in zip(
                group.rollouts.order_by("sample_index").values_list("pk", flat=True),
                own,
                strict=True,
            )
        }
        judge_claimed(values)
        return groups

    return make


@pytest.fixture
def judge_claimed() -> Callable[[dict[int, float]], None]:
    """Give all groups that wait for scoring these rewards of their rollouts, and refine them."""

    def judge(values: dict[int, float]) -> None:
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        questions = open_questions(claimed)
        record_verdicts(
            claimed,
            [
                AnsweredQuestion(q, [Verdict(values[pk], "test") for pk in q.rollout_ids])
                for q in questions
            ],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))

    return judge


@pytest.fixture
def trained() -> Callable[[Run], TrainStep]:
    """Plan and commit the run's next update; its version is published at once."""

    def train(run: Run) -> TrainStep:
        step = plan_step(run, run.fence)
        assert step is not None, "too few groups are ready"
        with run.fenced(run.fence) as locked:
            commit_step(locked, step, run.fence)
        _publish(run, step.number)
        run.refresh_from_db()
        return step

    return train


def _publish(run: Run, step: int) -> None:
    version = WeightVersion.objects.create(
        run=run, version=step, folder="/nowhere", fingerprint="f", step=step
    )
    version.verify()
    version.publish()
