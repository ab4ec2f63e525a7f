"""`manage.py score --regress`: the cases of regression sets, scored by real graders."""

import json

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import Project
from apps.rewards.models import RegressionCase, Trial
from apps.rewards.scorers import find_scorer
from apps.rewards.testbench.asking import keep_case
from workers import scorer_dispatch

VERSION = find_scorer("math").version
HALF = {"prompt": [], "answer": {"value": "1/2"}, "domain": "", "meta": {}}


@pytest.fixture(scope="module", autouse=True)
def one_grader():
    """Forget the grader processes, which the command stops."""
    yield
    scorer_dispatch.grader.cache_clear()


def case_of(project: Project, reply: str, before: float | None, expected: float | None):
    """Create a case whose last verdict was `before`."""
    last = {"value": before, "reason": "as it was", "details": {}, "version": 1, "seconds": 0.1}
    trial = Trial.objects.create(
        project=project, scorer="math", task=HALF, replies=[{"text": reply}], verdicts=[last]
    )
    return keep_case(trial, 0, expected, "", None)[0]


def test_command_succeeds_if_all_cases_hold(project, capsys):
    case = case_of(project, "0.5", 1.0, 1.0)
    call_command("score", regress="lab")
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"cases": 1, "hold": 1, "differ": [], "changed": []}
    case.refresh_from_db()
    assert (case.version, case.reason) == (VERSION, "the right answer")


def test_the_command_ends_with_1_and_lists_the_cases_that_differ(project, capsys):
    case_of(project, "0.5", 1.0, 1.0)
    differs = case_of(project, "0.4", 0.0, 1.0)
    undecided = case_of(project, "7", None, None)
    mended = case_of(project, "2/4", 0.0, 1.0)
    with pytest.raises(SystemExit) as ended:
        call_command("score", regress="")
    header, *rows, last = capsys.readouterr().out.splitlines()
    assert ended.value.code == 1 and header.split()[:3] == ["case", "project", "scorer"]
    assert [row.split()[:8] for row in rows] == [
        [str(differs.pk), "lab", "math", str(VERSION), "1", "0", "0", "differs"],
        [str(undecided.pk), "lab", "math", str(VERSION), "none", "none", "0", "differs"],
        [str(mended.pk), "lab", "math", str(VERSION), "1", "0", "1", "holds"],
    ]
    assert json.loads(last) == {
        "cases": 4,
        "hold": 2,
        "differ": [differs.pk, undecided.pk],
        "changed": [undecided.pk, mended.pk],
    }
    assert set(RegressionCase.objects.filter(holds=False)) == {differs, undecided}


def test_cases_of_other_projects_are_excluded(project, admin, capsys):
    case_of(project, "0.4", 0.0, 1.0)
    Project.create("Other", "other", admin)
    call_command("score", regress="other")
    assert json.loads(capsys.readouterr().out)["cases"] == 0


def test_unknown_project_is_reported(project):
    with pytest.raises(CommandError, match="--regress: no project 'none'"):
        call_command("score", regress="none")


def test_either_a_file_or_the_regression_set_is_required(project, tmp_path):
    for said in ((), (tmp_path / "lines.jsonl", "--regress")):
        with pytest.raises(CommandError, match="either a file or --regress"):
            call_command("score", *map(str, said))
