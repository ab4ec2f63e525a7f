"""What a run's page shows about its algorithm, about steps that were not applied, and about runs
that learn from demonstrations or preferences.
"""

import pytest
from django.urls import reverse

from apps.buffer.models import Snapshot
from apps.runs.models import Metric, Run, TrainStep
from apps.runs.parsing import parse_config


@pytest.fixture
def look(client, alice):
    """Return a function that fetches the page of a run, or another view of it, as its owner."""
    client.force_login(alice)

    def get(run: Run, view: str = "run", *args: str):
        answer = client.get(reverse(view, args=["lab", run.slug, *args]))
        assert answer.status_code == 200
        return answer

    return get


@pytest.fixture
def learning_from(project, policy, taskset):
    """Return a function that starts a run of an algorithm on demonstrations or preferences, 16 per
    step.
    """

    def start(algorithm: str, source: str) -> Run:
        plan = {
            "policy": "tiny",
            "taskset": "sort",
            "steps": 10,
            "algorithm": algorithm,
            "snapshot": {"source": source, "rows": 16},
        }
        run = Run.create(project=project, slug=algorithm, title="A run", plan=parse_config(plan))
        run.start()
        return run

    return start


@pytest.fixture
def taught(learning_from) -> Run:
    """Start a run that imitates 40 demonstrations."""
    run = learning_from("sft", "demonstrations")
    Snapshot.freeze(run, "demonstrations", [(n, f"{n:064x}") for n in range(40)])
    return run


def test_run_page_shows_the_algorithm_and_its_parts(look, new_run):
    html = look(new_run(algorithm={"name": "gspo"})).content.decode()
    assert "GSPO" in html and "seq-mean-token-mean" in html


def test_run_page_shows_the_reading_order(look, new_run):
    html = look(new_run(reading={"order": {"name": "priority", "people": 3}})).content.decode()
    assert "reads first" in html and "priority(people=3)" in html


def test_run_page_shows_the_replay_rule(look, new_run):
    html = look(
        new_run(reading={"replay": {"name": "uniform", "share": 0.5, "max_uses": 2}})
    ).content.decode()
    assert "takes again" in html and "uniform, ≤ 50% of groups, ≤ 2 uses" in html


def test_run_page_with_default_reading_does_not_mention_it(look, run):
    html = look(run).content.decode()
    assert "reads first" not in html and "takes again" not in html


def test_run_page_counts_steps_that_were_not_applied_with_the_last_reason(look, run):
    for number, skipped in (
        (1, ""),
        (2, "the loss is not finite"),
        (3, "the gradient is not finite"),
        (4, ""),
    ):
        TrainStep.objects.create(
            run=run, number=number, version=0, fence=1, state="committed", skipped=skipped
        )
    assert (
        "2 steps not applied, the last at step 3: the gradient is not finite."
        in look(run).content.decode()
    )


def test_run_page_without_skipped_steps_does_not_mention_them(look, run):
    assert "not applied" not in look(run).content.decode()


def test_run_on_demonstrations_shows_its_snapshot_and_no_groups(look, taught):
    html = look(taught).content.decode()
    assert "demonstrations, 16 per step" in html and "groups by where they stand" not in html
    assert "Latest replies" not in html and "No replies yet" not in html


@pytest.mark.parametrize(
    ("algorithm", "source"),
    [
        ("sft", "demonstrations"),
        ("dpo", "preferences"),
        ("kto", "thumbs"),
        ("reward_model", "preferences"),
    ],
)
def test_its_page_opens_before_the_snapshot_is_frozen(look, learning_from, algorithm, source):
    assert "are frozen when the trainer" in look(learning_from(algorithm, source)).content.decode()


def test_curves_of_a_run_on_demonstrations_are_those_of_the_loss(look, taught):
    taught.step = 2
    taught.save()
    Metric.record(taught, 2, {"loss": 1.5, "expert_nll": 1.5})
    series = look(taught, "run-curves").json()["series"]
    assert set(series) == {"loss", "expert_nll"}


@pytest.mark.parametrize("part", ["now", "beside"])
def test_parts_of_a_run_page_on_demonstrations_can_be_refreshed(look, taught, part):
    assert look(taught, "run-part", part).content
