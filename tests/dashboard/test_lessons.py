"""Pages of runs that train on lessons, and of expert rollouts."""

import pytest
from django.urls import reverse

from apps.buffer.models import commit_step, plan_lessons
from apps.feedback.experts import admit_demonstrations, list_unadmitted_demonstrations
from apps.feedback.lesson_snapshots import freeze
from apps.rollouts.models import Rollout
from apps.rollouts.payload import Tokens
from apps.runs.models import Metric, Run
from rftweb.management.run_report import describe_run
from tests.feedback.teaching import demonstrate, prefer

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(client, alice):
    """GET a named page as alice; return its text."""
    client.force_login(alice)

    def get(name: str, *args) -> str:
        response = client.get(reverse(name, args=args))
        assert response.status_code == 200
        return response.content.decode()

    return get


@pytest.fixture
def lesson_run(new_run, taskset) -> Run:
    """Create a run of DPO at step 1."""
    prefer(taskset)
    run = new_run(
        group_size=8,
        groups_per_step=16,
        rewards=[],
        algorithm="dpo",
        snapshot={"source": "preferences", "rows": 2},
    )
    run.claim_trainer("t", 60)
    freeze(run)
    step = plan_lessons(run, run.fence)
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    Metric.record(
        run, 1, {"loss": 0.7, "right": 0.5, "margin": 0.0, "step_seconds": 1.0, "wait_seconds": 0.0}
    )
    run.refresh_from_db()
    return run


def test_pages_of_a_run_without_rollouts_open(pages, lesson_run):
    assert lesson_run.slug in pages("run", "lab", lesson_run.slug)
    assert lesson_run.slug in pages("runs")


def test_report_of_a_lesson_run_shows_its_step(lesson_run):
    assert (describe_run(lesson_run)["step"], describe_run(lesson_run)["reward_last"]) == (1, None)


def test_expert_rollout_is_shown_without_a_reward(pages, new_run, taskset):
    demonstrate(taskset)
    run = new_run(algorithm={"name": "mix"})
    run.claim_trainer("t", 60)
    tokens = Tokens((1, 2), (3, 4), (0.0, 0.0), (1, 1), ())
    admit_demonstrations(
        run,
        run.fence,
        [(demonstration, tokens) for demonstration in list_unadmitted_demonstrations(run)],
    )
    rollout = Rollout.objects.first()
    page = pages("rollout", rollout.pk)
    assert "experts, sample 0" in page and "expert" in page
    assert "experts" in pages("rollouts", "lab", run.slug)
