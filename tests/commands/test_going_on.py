"""The demo continues: the next run follows a completed one, and untouched old runs are deleted."""

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection

from apps.accounts.models import User
from apps.dashboard.reconciliation import reconcile
from apps.feedback.models import Rating
from apps.runs.models import Run
from rftweb.demonstration import clearing
from rftweb.demonstration.furnishing import furnish_demonstration, newest_run, runs_named
from rftweb.demonstration.going_on import LaterRuns, go_on
from rftweb.demonstration.policies import building
from tests.warm_policies import copy_warm_policies
from workers.policies.tiny import build_tiny


@pytest.fixture
def project(db, tmp_path):
    return (
        furnish_demonstration({"tone": tmp_path / "tone"}).project
        if build_tiny(tmp_path / "tone", "tone")
        else None
    )


def completed(project, steps=None) -> Run:
    run = newest_run(project, "tone", steps)
    run.start()
    Run.objects.filter(pk=run.pk).update(state=Run.State.COMPLETED)
    return run


def test_next_run_starts_after_a_completed_one(project):
    completed(project, 9)
    lines: list[str] = []
    run = go_on(project, "tone", 9, lines.append)
    assert (run.slug, run.state, run.planned_steps) == ("tone-2", Run.State.RUNNING, 9)
    assert lines == ["tone has completed; tone-2 begins"]
    assert go_on(project, "tone", 9, lines.append) is None


@pytest.mark.parametrize("act", [Run.pause, Run.stop])
def test_run_paused_or_stopped_by_a_user_starts_no_next_one(project, act):
    run = newest_run(project, "tone", None)
    run.start()
    act(run)
    assert go_on(project, "tone", None, print) is None and Run.objects.count() == 1


def test_old_runs_are_deleted_and_their_numbers_not_reused(project):
    for _ in range(clearing.KEPT + 2):
        completed(project)
    folder = settings.WEIGHTS_ROOT / f"run-{runs_named(project, 'tone')[-1].pk}"
    folder.mkdir(parents=True)
    lines: list[str] = []
    go_on(project, "tone", None, lines.append)
    names = [run.slug for run in runs_named(project, "tone")]
    assert names == ["tone-6", "tone-5", "tone-4", "tone-3"]
    assert len(lines) == 3 and not folder.exists()


@pytest.fixture
def ended(seeded_run) -> Run:
    """Create an ended run with rows of every kind, rated only by the simulated rater."""
    User.objects.filter(ratings__run=seeded_run).update(is_simulated=True)
    Run.objects.filter(pk=seeded_run.pk).update(state=Run.State.COMPLETED, notes="", tags=[])
    seeded_run.refresh_from_db()
    return seeded_run


@pytest.fixture
def seeded_run(db, kept_run) -> Run:
    kept_run.put_back()
    return Run.objects.get()


def test_run_is_deleted_with_all_related_rows(ended):
    assert clearing.clear_old([ended], keep=0) == [ended.slug]
    left = {
        model.__name__: model._base_manager.count()
        for model in apps.get_models()
        if _is_of_runs(model)
    }
    assert not {name: count for name, count in left.items() if count}
    assert not {check: found for check, found in reconcile(None).items() if found}
    connection.check_constraints()


def _is_of_runs(model) -> bool:
    return any(
        field.is_relation and field.related_model is Run for field in model._meta.concrete_fields
    )


def test_deletion_of_a_run_loads_no_rows(ended, django_assert_max_num_queries):
    with django_assert_max_num_queries(2_000) as seen:
        clearing.clear_old([ended], keep=0)
    assert not [query for query in seen.captured_queries if len(query["sql"]) > 20_000]


@pytest.mark.parametrize("touch", ["rating", "note", "pin", "built upon"])
def test_run_with_human_input_is_kept(ended, touch):
    if touch == "rating":
        User.objects.filter(pk=Rating.objects.filter(run=ended).first().rater_id).update(
            is_simulated=False
        )
    elif touch == "note":
        Run.objects.filter(pk=ended.pk).update(notes="look at step 2")
    elif touch == "pin":
        ended.weight_versions.filter(version=1).update(pinned_at=ended.created_at)
    else:
        lesson = apps.get_model("feedback", "Demonstration")
        lesson.objects.create(project=ended.project, run=ended, prompt=[], source="test", key="k")
    ended.refresh_from_db()
    assert clearing.clear_old([ended], keep=0) == [] and Run.objects.filter(pk=ended.pk).exists()


@pytest.mark.slow
def test_waiting_runs_are_added_once_their_policies_are_built(project, settings, tmp_path):
    copy_warm_policies(("sort",), tmp_path)
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    settings.VAR = tmp_path
    with building(("sort",), niceness=1) as builders:
        later = LaterRuns(builders)
        later.add(project, print)
        assert not runs_named(project, "sort"), "adding does not wait for the policy"
        builders.folders()
        for _ in range(2):
            later.add(project, print)
    assert [run.state for run in runs_named(project, "sort")] == [Run.State.CREATED]


def test_demo_continues_if_a_policy_cannot_be_built(project, settings, tmp_path):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    settings.VAR = tmp_path
    (tmp_path / "models").write_text("no folder: nothing can be fetched into it")
    lines: list[str] = []
    with building(("sums",), niceness=1) as builders:
        later = LaterRuns(builders)
        while not later.is_over:
            later.add(project, lines.append)
    assert not runs_named(project, "sums")
    log = tmp_path / "log" / "policies.log"
    assert [line.partition(";")[0] for line in lines] == ["building failed: smollm2"]
    assert str(log) in lines[0] and log.read_text()
