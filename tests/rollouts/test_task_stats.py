"""A run's records of its tasks: each verdict is added once, and later draws read them."""

import threading

import pytest
from django.db import connection, transaction

from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group
from apps.rollouts.task_stats import GroupResult, TaskRecord
from apps.runs.models import StaleFence
from apps.runs.selection import Bots
from apps.tasksets.models import Task
from apps.tasksets.selection.bots import Beliefs, evidence


@pytest.fixture
def judge(finish):
    """Open groups, give all rollouts of each these rewards, and refine them."""

    def judged(run, *rewards: tuple[float | None, ...]) -> list[Group]:
        opened = finish(
            run, [str(n) * 4 for n in range(run.settings.group_size)], groups=len(rewards)
        )
        by_group = dict(zip((group.pk for group in opened), rewards, strict=True))
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        answers = []
        for group in claimed:
            for question in open_questions([group]):
                value = by_group[group.pk][int(question.rollouts[0].text[0])]
                answers.append(AnsweredQuestion(question, [Verdict(value, "test")]))
        record_verdicts(claimed, answers)
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        return [Group.objects.get(pk=group.pk) for group in opened]

    return judged


def test_verdict_adds_the_groups_result_to_the_record_of_its_task(run, judge):
    (group,) = judge(run, (1.0, 0.5))
    record = TaskRecord.objects.get(run=run)
    assert (record.task_id, record.attempts, record.successes, record.rate) == (
        group.task_id,
        2,
        1.5,
        0.75,
    )
    assert (record.alpha, record.beta, record.last_draw) == (13.0, 5.0, 0)


def test_dropped_group_without_signal_counts_too(new_run, judge):
    run = new_run(algorithm={"name": "dapo"})
    right, wrong = judge(run, (1.0, 1.0), (0.0, 0.0))
    assert right.state == wrong.state == Group.State.DROPPED
    assert dict(TaskRecord.objects.values_list("task", "rate")) == {
        right.task_id: 1.0,
        wrong.task_id: 0.0,
    }


def test_rollout_without_a_reward_is_not_an_attempt(run, judge):
    judge(run, (1.0, None), (None, None))
    assert [record.attempts for record in TaskRecord.objects.all()] == [1]


def test_success_is_the_share_of_the_full_reward(new_run, judge):
    run = new_run(rewards=[{"scorer": "sort", "weight": 2.0}])
    judge(run, (0.5, -3.0), (7.0, 1.0))
    assert sorted(record.rate for record in TaskRecord.objects.all()) == [0.25, 1.0]


def test_beliefs_decay_with_the_steps_in_between(new_run, judge, alice):
    run = new_run(
        groups_per_step=1,
        selection={"name": "bots", "choose": "mean", "target": 1.0},
        max_staleness=99,
    )
    for index in (1, 2, 3):
        LeftOut.objects.create(
            run=run, task=run.taskset.tasks.get(index=index), reason="one is enough", by=alice
        )
    judge(run, (1.0, 0.5))
    judge(run, (0.0, 0.0))
    record = TaskRecord.objects.get(run=run)
    assert (record.alpha, record.beta) == pytest.approx((1 + 0.8 * 12, 1 + 0.8 * 4 + 16))
    assert record.last_draw == 1


def added(run, draw: int, successes: tuple[float, ...] = (1.0, 0.0), **how) -> TaskRecord:
    task = Task.objects.get(taskset=run.taskset, index=0)
    TaskRecord.add(run.pk, [GroupResult(task.pk, draw, successes)], 2, Bots(**how))
    return TaskRecord.objects.get(run=run, task=task)


def test_beliefs_follow_the_formula_step_by_step(run):
    alpha = beta = 1.0
    last = 0
    for draw, rate in ((0, 1.0), (1, 0.5), (9, 0.0), (8, 0.25), (40, 0.75)):
        record = added(run, draw, (rate, rate))
        gained = evidence(rate, 16)
        ago = max(0, draw // 2 - last // 2)
        alpha = 1 + 0.8**ago * (alpha - 1) + gained[0]
        beta = 1 + 0.8**ago * (beta - 1) + gained[1]
        last = max(last, draw)
        assert (record.alpha, record.beta, record.last_draw) == (
            pytest.approx(alpha),
            pytest.approx(beta),
            last,
        )
    beliefs = Beliefs.of(TaskRecord.objects.beliefs(2), 22, 0.2)
    assert beliefs.alpha[0] == pytest.approx(1 + 0.8**2 * (alpha - 1))


@pytest.mark.parametrize("forgetting", [0.0, 0.5, 0.999999, 1.0])
def test_very_old_belief_may_vanish(run, forgetting):
    for draw in (0, 2_000_000_000, 2_100_000_000):
        record = added(run, draw, forgetting=forgetting)
    assert record.alpha == record.beta == (25 if forgetting == 0 else 9)


def test_recent_rate_weights_newer_attempts_most(run):
    for draw in range(6):
        added(run, draw * 20, (0.0, 0.0))
    added(run, 200, (1.0, 1.0))
    rates = {which: TaskRecord.objects.rates([0, 1], which) for which in ("all", "recent")}
    assert rates["all"] == {0: pytest.approx(1 / 7)} and rates["recent"][0] > 0.99


def test_late_verdict_adds_nothing(run, finish):
    finish(run)
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 1)
    record_verdicts(
        claimed,
        [
            AnsweredQuestion(question, [Verdict(1.0, "test")])
            for question in open_questions(claimed)
        ],
    )
    (slow,) = Group.objects.claim(Group.State.JUDGED, "slow", 0, 1)
    (quick,) = Group.objects.claim(Group.State.JUDGED, "quick", 60, 1)
    assert refine([slow]) == 0 and not TaskRecord.objects.exists()
    refine([quick])
    assert TaskRecord.objects.get().attempts == 2
    with pytest.raises(StaleFence):
        quick.drop("twice")
    assert refine([quick]) == 0 and TaskRecord.objects.get().attempts == 2


@pytest.mark.django_db(transaction=True)
def test_concurrent_verdicts_on_one_task_are_all_counted(run):
    def add():
        try:
            added(run, 0)
        finally:
            connection.close()

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert TaskRecord.objects.get().attempts == 12


BY_SUCCESS = {
    "prioritized": {"name": "prioritized"},
    "thompson": {"name": "bots"},
    "mean": {"name": "bots", "choose": "mean"},
    "softmax": {"name": "bots", "choose": "softmax"},
}


def drawn(run, groups: int) -> list[int]:
    return [group.task.index for group in Group.open(run, "e", 60, groups, run.published_version)]


@pytest.mark.parametrize("name", BY_SUCCESS)
def test_rolled_back_draws_by_success_are_repeated_identically(new_run, judge, alice, name):
    run = new_run(max_staleness=99, selection=BY_SUCCESS[name])
    LeftOut.objects.create(
        run=run, task=run.taskset.tasks.get(index=3), reason="too easy", by=alice
    )
    judge(run, (1.0, 0.5), (0.0, 0.0))
    with transaction.atomic():
        lost = drawn(run, 9)
        transaction.set_rollback(True)
    assert drawn(run, 2) + drawn(run, 4) + drawn(run, 3) == lost
    assert 3 not in lost and len(set(lost[:3])) == 3


@pytest.mark.parametrize("name", BY_SUCCESS)
def test_draws_by_success_take_at_most_12_queries_after_many_attempts(
    new_run, judge, name, django_assert_max_num_queries
):
    run = new_run(max_staleness=99, selection=BY_SUCCESS[name])
    judge(run, *[(1.0, 0.5)] * 8)
    with django_assert_max_num_queries(12):
        drawn(run, 4)


def test_failing_task_is_drawn_more_often_than_succeeding_ones(new_run, judge):
    run = new_run(max_staleness=999, selection={"name": "prioritized", "floor": 0.001})
    for group in Group.open(run, "e", 60, 4, run.published_version):
        rate = 0.0 if group.task.index == 2 else 1.0
        TaskRecord.add(
            run.pk, [GroupResult(group.task_id, group.draw_index, (rate, rate))], 2, Bots()
        )
        group.drop("told enough")
    times = []
    for _ in range(30):
        (group,) = Group.open(run, "e", 60, 1, run.published_version)
        times.append(group.task.index)
        group.drop("told enough")
    assert times.count(2) > 25


def test_task_nearest_to_the_target_is_drawn_first(new_run):
    run = new_run(
        max_staleness=99,
        selection={"name": "bots", "choose": "mean", "target": 0.5, "forgetting": 0},
    )
    for index, rate in enumerate((0.0, 0.4, 1.0, 0.9)):
        TaskRecord.add(
            run.pk,
            [GroupResult(run.taskset.tasks.get(index=index).pk, 0, (rate, rate))],
            2,
            Bots(forgetting=0),
        )
    assert drawn(run, 4) == [1, 3, 0, 2]


def test_groups_of_one_task_added_together_count_one_after_another(run):
    task, other = run.taskset.tasks.order_by("index")[:2]
    told = [
        GroupResult(task.pk, 0, (1.0, 0.5)),
        GroupResult(other.pk, 1, (0.0,)),
        GroupResult(task.pk, 6, (0.25,)),
        GroupResult(task.pk, 3, (1.0,)),
    ]
    TaskRecord.add(run.pk, told, 2, Bots())
    together = list(
        TaskRecord.objects.order_by("task__index").values_list(
            "attempts", "successes", "alpha", "beta", "last_draw"
        )
    )
    TaskRecord.objects.all().delete()
    for one in told:
        TaskRecord.add(run.pk, [one], 2, Bots())
    assert together == list(
        TaskRecord.objects.order_by("task__index").values_list(
            "attempts", "successes", "alpha", "beta", "last_draw"
        )
    )
    assert together[0][0] == 4
