"""What changed from one version to another, measured by the replies of their evaluations."""

import pytest
from django.urls import reverse

from apps.evaluation.asking import start_evaluation
from apps.evaluation.models import Arena
from apps.evaluation.results import keep_results
from apps.rewards.models import Reward
from apps.rollouts.evaluation_groups import close_evaluation_groups, complete_measured
from apps.rollouts.models import Group
from apps.runs.evaluation import Questions
from apps.runs.models import Run
from tests.dashboard.evaluating import publish

pytestmark = pytest.mark.django_db
HELLO = "<script>alert(1)</script> I left it at the door."


def evaluated(run: Run, number: int, finish, text: str, value: float) -> None:
    version = run.weight_versions.get(version=number)
    made, _ = start_evaluation(version, Questions(taskset="sort", samples=1))
    for group in finish(made, [text], groups=4):
        for rollout in group.rollouts.all():
            Reward.record(rollout, Reward.Source.RULE, "sort", value)
    Group.objects.filter(run=made).update(state="judged")
    close_evaluation_groups(Group.objects.claim("judged", "refiner", 60, 10, made))
    complete_measured()
    keep_results()


@pytest.fixture
def run(new_run, alice, bob, finish) -> Run:
    run = new_run()
    publish(run, 1, 2)
    evaluated(run, 1, finish, HELLO, 0.0)
    evaluated(run, 2, finish, f"- {HELLO}\n- I’m happy to help you with your parcel.", 1.0)
    return run


def address(run: Run, query: str = "?one=1&other=2") -> str:
    return reverse("run-behaviour", args=[run.project.slug, run.slug]) + query


def test_clusters_are_shown_with_escaped_examples(run, client, alice):
    client.force_login(alice)
    text = " ".join(client.get(address(run)).content.decode().split())
    assert "4 pairs of replies" in text and "has a list" in text and "sort higher" in text
    assert "longer" in text and "<script>alert" not in text


def test_blind_confirmation_opens_an_arena_without_version_names(run, client, alice):
    client.force_login(alice)
    answer = client.post(address(run))
    arena = Arena.objects.get()
    assert answer["Location"] == reverse("arena", args=["lab", arena.pk])
    assert arena.contestants.count() == 2 and arena.title == f"sort, two versions of {run.slug}"


def test_versions_without_a_common_evaluation_get_advice(run, client, alice):
    client.force_login(alice)
    assert "Evaluate both" in client.get(address(run, "?one=0&other=2")).content.decode()
    assert client.post(address(run, "?one=0&other=2")).status_code == 404


@pytest.mark.parametrize("query", ["", "?one=1", "?one=1&other=99", "?one=x&other=2"])
def test_invalid_versions_are_404(run, client, alice, query):
    client.force_login(alice)
    assert client.get(address(run, query)).status_code == 404


def test_blind_rater_cannot_open_the_page(run, client, bob):
    client.force_login(bob)
    assert client.get(address(run)).status_code == 403
    assert client.post(address(run)).status_code == 403
