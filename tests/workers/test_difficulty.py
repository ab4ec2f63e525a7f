"""How hard tasks are for a policy: a real small policy tries them on the real engine, and runs
select tasks by the result.
"""

import subprocess
import sys
from subprocess import CompletedProcess

import pytest
from django.core.management import CommandError, call_command

from apps.feedback.models import Guess
from apps.feedback.suspicions.guesses import GuessCheck
from apps.rollouts.models import Group
from apps.runs.config import ScorerChoice
from apps.runs.models import Run
from apps.tasksets.models import Task, TaskDifficulty
from apps.tasksets.scales import begin_scale, finish_scale, without_number
from tests.workers.test_guessing import guesser, untrained  # noqa: F401 - fixtures
from workers.guessing import __main__ as worker
from workers.guessing.difficulty import estimate

pytestmark = pytest.mark.django_db
DIGITS = [str(digit) for digit in range(10)]


def test_tasks_that_sometimes_succeed_are_rated_easier_than_those_that_never_do(guesser, taskset):
    by_index = {task.index: task for task in taskset.tasks.all()}
    taskset.tasks.update(answer={"value": "no policy says this at random"})
    Task.objects.filter(pk=by_index[1].pk).update(answer={"value": DIGITS})
    Task.objects.filter(pk=by_index[2].pk).update(answer={})
    scale = begin_scale(taskset, "hard", "tries")
    told = []
    check = GuessCheck(
        [ScorerChoice(scorer="math")],
        tries=64,
        max_tokens=1,
        instruction="",
        temperature=1.5,
        thinks=True,
    )
    assert (
        estimate(scale, guesser, check, "transformers", 2, lambda done, of: told.append((done, of)))
        == 0
    )
    assert told == [(2, 2)] and without_number(scale) == [
        by_index[2].pk,
        by_index[3].pk,
    ], "it continues where it stopped"
    assert estimate(scale, guesser, check, "transformers") == 1, (
        "a task that no scorer can score has no number"
    )
    found = dict(TaskDifficulty.objects.values_list("task", "value"))
    assert 0 < found[by_index[1].pk] < 1 and found[by_index[0].pk] == found[by_index[3].pk] == 1
    assert finish_scale(scale) == 1 and finish_scale(scale, otherwise=0.5) == 0
    assert not Guess.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "--scorer", "math", "--policy", "tiny"], "no taskset"),
        (["sort", "--scorer", "math"], "--policy: a policy is required"),
        (["sort", "--scorer", "format", "--policy", "tiny"], "only the form of a reply"),
        (["sort", "--scorer", "math", "--policy", "tiny", "--samples", "0"], "--samples"),
        (["sort", "--scorer", "math", "--policy", "tiny", "--temperature", "nan"], "--temperature"),
        (["sort", "--scorer", "math", "--policy", "tiny", "--otherwise", "2"], "--otherwise"),
        (["sort", "--scorer", "math", "--policy", "tiny", "--name", ""], "--name"),
        (
            ["sort", "--scorer", "math", "--policy", "tiny", "--name", "level"],
            "choose another name",
        ),
    ],
)
def test_difficulty_command_reports_the_error(policy, taskset, arguments, said):
    taskset.scales.create(name="level", source="the tasks' meta")
    with pytest.raises(CommandError, match=said):
        call_command("taskset", "difficulty", *arguments)


@pytest.fixture
def here(monkeypatch):
    """Run the worker's program in this process, which sees the test's rows."""

    def run(argv: list[str], **how: object) -> CompletedProcess:
        monkeypatch.setattr(sys, "argv", argv[2:])
        return CompletedProcess(argv, worker.main())

    monkeypatch.setattr(subprocess, "run", run)


def test_difficulty_command_creates_a_scale_that_runs_can_use(
    guesser, taskset, plan, project, here, capsys
):
    taskset.tasks.update(answer={"value": DIGITS})
    Task.objects.filter(taskset=taskset, index=2).update(
        answer={"value": "no policy says this at random"}
    )
    asked = [
        "sort",
        "--scorer",
        "math",
        "--policy",
        "tiny",
        "--samples",
        "64",
        "--max-tokens",
        "1",
        "--engine",
        "transformers",
    ]
    call_command("taskset", "difficulty", *asked, "--limit", "3")
    assert (
        "1 of 4 tasks have no number yet" in capsys.readouterr().out
        and not taskset.scales.get().ready
    )
    with pytest.raises(
        CommandError, match=r"was started with 64 tries of tiny at temperature 1.2, judged by math"
    ):
        call_command("taskset", "difficulty", *asked, "--temperature", "1.5")
    call_command("taskset", "difficulty", *asked)
    assert "selection: {scale: difficulty}" in capsys.readouterr().out
    assert taskset.scales.get().ready
    run = Run.create(
        project=project,
        slug="r",
        title="R",
        plan=plan(selection={"name": "easy_to_hard", "scale": "difficulty"}),
    )
    run.start()
    assert Group.open(run, "e", 60, 4, 0)[3].task.index == 2
