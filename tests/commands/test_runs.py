"""`manage.py runs`: it lists, compares and follows runs, as text and as JSON."""

import io
import json
import pty
import re
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import Project
from apps.evaluation.asking import start_evaluation
from apps.runs.evaluation import Questions
from apps.runs.models import Metric, Run
from apps.tasksets.models import Task
from rftweb.management.run_report import step_rewards
from tests.dashboard.conftest import seeded  # noqa: F401  (a fixture)


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def test_list_starts_with_the_newest_run_and_reports_that_there_are_more(new_run):
    for _ in range(3):
        new_run()
    told = said("runs", "list", "--limit", 2).splitlines()
    assert [line.split()[1] for line in told[:2]] == [
        "run-2",
        "run-1",
    ] and "use --limit, --state or --tag" in told[2]


def test_list_is_filtered_by_state_and_tag_and_excludes_archived_runs(new_run):
    one = new_run()
    two = new_run()
    three = new_run()
    one.pause()
    Run.objects.filter(pk=two.pk).update(tags=["long"])
    three.stop()
    Run.objects.filter(pk=three.pk).update(archived_at=three.ended_at)

    def names(*how: str) -> list[str]:
        return [
            json.loads(line)["run"] for line in said("runs", "list", "--json", *how).splitlines()
        ]

    assert names("--state", "paused") == ["run-0"] and names("--tag", "long") == ["run-1"]
    assert names() == ["run-1", "run-0"] and names("--archived") == ["run-2", "run-1", "run-0"]


def test_actions_print_json(new_run):
    new_run()
    assert json.loads(said("runs", "pause", "run-0", "--json"))["state"] == "paused"


def test_diff_lists_each_field_with_both_values(new_run):
    new_run(), new_run(seed=3, algorithm="gspo")
    assert re.search(r"^seed +0 +3$", said("runs", "diff", "run-0", "run-1"), re.MULTILINE)
    found = json.loads(said("runs", "diff", "run-0", "run-1", "--json"))
    assert (
        found["algorithm.loss.name"] == {"run-0": "ppo", "run-1": "gspo"} and "steps" not in found
    )
    assert "the same configuration" in said("runs", "diff", "run-0", "run-0")
    with pytest.raises(CommandError, match="no run"):
        said("runs", "diff", "run-0", "run-9")


def test_run_slug_in_two_projects_requires_the_project(run, taskset, policy, plan):
    there = Project.objects.create(slug="there", title="There")
    policy.pk = None
    policy.project = there
    policy.save()
    tasks = list(taskset.tasks.all())
    taskset.pk = None
    taskset.project = there
    taskset.save()
    taskset.tasks.bulk_create(
        Task(taskset=taskset, index=one.index, prompt=one.prompt, digest=one.digest)
        for one in tasks
    )
    Run.create(project=there, slug=run.slug, title="Of the same name", plan=plan(seed=9))
    with pytest.raises(CommandError, match=r"use (lab|there)/run-0 or (lab|there)/run-0"):
        said("runs", "show", run.slug)
    assert re.search(
        r"^field +lab/run-0 +there/run-0$",
        said("runs", "diff", "lab/run-0", "there/run-0"),
        re.MULTILINE,
    )


def test_list_contains_evaluations_only_on_request(run):
    evaluation, _ = start_evaluation(run.weight_versions.get(), Questions(taskset="sort"))
    assert evaluation.slug not in said("runs", "list") and evaluation.slug in said(
        "runs", "list", "--evaluations"
    )


def test_reward_is_computed_only_from_the_newest_steps(seeded):
    last = step_rewards(seeded.run, 1, 3)
    assert len(last) == 3 and step_rewards(seeded.run, 2, 3) == pytest.approx(
        last[1:]
    )  # sums, in the order of the rows
    Run.objects.filter(pk=seeded.run.pk).update(step=13, planned_steps=20)
    assert json.loads(said("runs", "show", seeded.run.slug, "--json"))["reward_last"] is None


def moves(run: Run):
    """Yield a function for each check: two updates, then the end."""

    def learn(step: int) -> None:
        Run.objects.filter(pk=run.pk).update(step=step)
        Metric.record(run, step, {"reward_mean": 0.25 * step})

    return iter([lambda: learn(1), lambda: learn(2), lambda: run.stop()])


def test_follow_prints_a_line_for_each_update_without_a_terminal(run, monkeypatch):
    acts = moves(run)
    monkeypatch.setattr(
        "rftweb.management.commands.runs.time", SimpleNamespace(sleep=lambda _: next(acts)())
    )
    rows = [json.loads(line) for line in said("runs", "follow", run.slug, "--json").splitlines()]
    assert [(row["step"], row["reward"], row["state"]) for row in rows] == [
        (1, 0.25, "running"),
        (2, 0.5, "running"),
        (2, 0.5, "stopped"),
    ]


def all_of(controller: int) -> str:
    """Return all output of a closed terminal; one read returns only the output of one write."""
    found = b""
    with (
        open(controller, "rb", buffering=0) as screen,
        suppress(OSError),
    ):  # Linux signals the end by EIO
        while piece := screen.read(65_536):
            found += piece
    return found.decode()


def test_follow_draws_a_progress_bar_on_a_terminal(run, monkeypatch):
    acts = moves(run)
    monkeypatch.setattr(
        "rftweb.management.commands.runs.time", SimpleNamespace(sleep=lambda _: next(acts)())
    )
    controller, terminal = pty.openpty()
    with open(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        told = said("runs", "follow", run.slug)
    drawn = all_of(controller)
    assert "step 1/" not in told and "stopped by hand" in told
    assert f"2/{run.planned_steps}" in drawn and "reward 0.500" in drawn
