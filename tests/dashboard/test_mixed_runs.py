"""Pages of a run over several tasksets show the taskset of each task."""

import pytest
from django.urls import reverse

from apps.rollouts.models import Rollout
from tests.rollouts.mixed import taskset_of

SHARES = {"large": 2, "small": 1}


@pytest.fixture
def mixed(new_run, project, finish, alice):
    for slug, size in (("large", 7), ("small", 3)):
        taskset_of(project, slug, size)
    run = new_run(
        taskset=None, tasksets=SHARES, max_staleness=9, people={"per_group": 1, "simulated": False}
    )
    finish(run, ["12345", "99999"], groups=6)
    return run


@pytest.fixture
def page(client, mixed, alice):
    client.force_login(alice)

    def shown(name: str, *args, **query) -> str:
        answer = client.get(reverse(name, args=args or ["lab", mixed.slug]), query)
        assert answer.status_code == 200
        return answer.content.decode()

    return shown


def test_run_page_lists_the_tasksets_with_their_shares(page):
    html = page("run")
    assert "groups sampled from 2 tasksets" in html and "share of the sampled groups" in html
    for slug, share in SHARES.items():
        assert (
            f'href="/tasksets/lab/{slug}/">{slug}</a>' in html
            and f'<dd class="num">{share}</dd>' in html
        )


def test_list_of_runs_shows_the_tasksets(client, page):
    assert "large + small" in client.get(reverse("runs")).content.decode()


PAGES = (
    "rollouts",
    "run-people",
    "run-suspicions",
    "run-pipeline",
    "run-buffer",
    "run-weights",
    "run-trace",
    "run-rescorings",
    "run-exports",
    "run-quality",
    "run-gold",
)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_of_the_run_opens(page, name):
    assert page(name)


def test_task_number_is_searched_in_all_tasksets(page, mixed):
    groups = [group for group in mixed.groups.select_related("task") if group.task.index == 1]
    html = page("rollouts", task="1")
    assert groups and html.count('class="open"') == 2 * len(groups)


def test_page_of_each_taskset_lists_the_run(page, mixed):
    for slug in SHARES:
        assert f"/runs/lab/{mixed.slug}/" in page("taskset", "lab", slug)


def test_rollout_page_shows_the_taskset_of_its_task(page):
    rollout = Rollout.objects.filter(group__task__taskset__slug="small").first()
    group = rollout.group
    assert f"group {group.draw_index}: task {group.task.index} of small" in page(
        "rollout", rollout.pk
    )
