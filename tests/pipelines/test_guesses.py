"""Guesses in operators: those of each group's task, and of several policies those of the best
guesser.
"""

from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.feedback.models import Guess
from apps.pipelines.models import CutRollout
from apps.policies.models import Policy
from apps.rollouts.models import Group

STEP = {"operator": "easy_to_guess"}


def guesses(policy, found: dict) -> None:
    Guess.objects.bulk_create(
        Guess(task=task, policy=policy, scorer="sort", tries=8, right=right)
        for task, right in found.items()
    )


def test_groups_of_guessed_tasks_are_dropped_and_others_are_not(new_run, judge):
    run = new_run(pipeline=[STEP])
    easy, hard, *_ = run.taskset.tasks.order_by("index")
    guesses(run.policy, {easy: 2, hard: 0})
    groups = judge(run, *[(0.0, 1.0)] * 4)
    dropped = {group.task: group.reason for group in groups if group.state == Group.State.DROPPED}
    assert dropped == {
        easy: "easy_to_guess: the task was guessed correctly without reasoning in 2 of 8 tries"
    }
    assert CutRollout.objects.filter(operator="easy_to_guess").count() == 2


def test_best_guesser_of_several_policies_counts(new_run, judge, project):
    run = new_run(pipeline=[STEP])
    other = Policy.objects.create(
        project=project,
        slug="other",
        title="Other",
        source="test",
        folder="/nonexistent",
        fingerprint="1" * 16,
        architecture="Qwen3",
        parameters=1,
        context_tokens=64,
    )
    task = run.taskset.tasks.get(index=0)
    guesses(other, {task: 3})
    guesses(run.policy, {task: 0})
    reasons = [group.reason for group in judge(run, *[(0.0, 1.0)] * 4) if group.reason]
    assert reasons == [
        "easy_to_guess: the task was guessed correctly without reasoning in 3 of 8 tries"
    ]


def test_guesses_are_queried_only_if_an_operator_needs_them(run, judge):
    with CaptureQueriesContext(connection) as seen:
        judge(run, (0.0, 1.0))
    assert not [query for query in seen.captured_queries if "feedback_guess" in query["sql"]]
