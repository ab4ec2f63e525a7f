"""The taskset page shows the success rates of each run's tasks, from the rows that task selection
uses.
"""

import pytest
from django.urls import reverse

from apps.dashboard.successes import BINS, find_hardest_and_easiest, histograms
from apps.rollouts.task_stats import GroupResult, TaskRecord
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from apps.runs.selection import Bots
from tests.dashboard.growing import grow_runs
from tests.rollouts.mixed import taskset_of

RATES = (0.0, 0.05, 0.1, 0.55, 0.999, 1.0, 1.0)


@pytest.fixture
def recorded(seeded):
    """Record seven tried tasks of the run at these rates, two tries each."""
    TaskRecord.objects.all().delete()
    for task, rate in zip(seeded.run.taskset.tasks.order_by("index"), RATES, strict=False):
        TaskRecord.add(seeded.run.pk, [GroupResult(task.pk, 0, (rate, rate))], 4, Bots())
    return seeded


def page(client, **query) -> str:
    answer = client.get(reverse("taskset", args=["lab", "tone"]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_histogram_counts_tasks_by_success_rate(recorded):
    run = recorded.run
    (drawn,) = histograms(run.taskset, [run], recorded.alice)
    assert [bar.count for bar in drawn.bars] == [2, 1, 0, 0, 0, 1, 0, 0, 0, 3] and len(
        drawn.bars
    ) == BINS
    assert (drawn.tried, drawn.untried) == (7, run.taskset.size - 7)
    assert drawn.rate == pytest.approx(sum(RATES) / 7)


def test_hardest_and_easiest_lists_share_no_task(recorded):
    ends = find_hardest_and_easiest(recorded.run.taskset, recorded.run)
    assert [record.rate for record in ends.hardest] == [0.0, 0.05, 0.1, 0.55, 0.999]
    assert [record.rate for record in ends.easiest] == [1.0, 1.0]


def test_run_without_tried_tasks_shows_no_histogram(client, seeded):
    TaskRecord.objects.all().delete()
    client.force_login(seeded.alice)
    assert "Success by task" not in page(client)


def test_page_shows_the_histogram_with_hardest_and_easiest_tasks(client, recorded):
    client.force_login(recorded.alice)
    html = page(client, run="tone-7")
    assert (
        "Success by task" in html and "Hardest for tone-7" in html and "Easiest for tone-7" in html
    )
    assert html.count("<rect") == 4 and "untried" in html


def test_blind_rater_sees_no_success_rates(client, recorded):
    client.force_login(recorded.bob)
    assert "Success by task" not in page(client)
    assert (
        client.get(reverse("taskset", args=["lab", "tone"]), {"run": "tone-7"}).status_code == 404
    )


def test_unknown_run_returns_404(client, recorded):
    client.force_login(recorded.alice)
    assert client.get(reverse("taskset", args=["lab", "tone"]), {"run": "none"}).status_code == 404


def test_queries_do_not_grow_with_records_and_runs(client, recorded, django_assert_max_num_queries):
    client.force_login(recorded.alice)
    grow_runs(recorded.run, 30)
    for task in recorded.run.taskset.tasks.all():
        TaskRecord.add(recorded.run.pk, [GroupResult(task.pk, 4, (0.5,))], 4, Bots())
    with django_assert_max_num_queries(18):
        page(client)


@pytest.fixture
def asked(recorded):
    recorded.run.change_config(None, selection={"name": "people"})
    return recorded


def ask(client, index: str):
    asked = {"taskset": "tone", "task": index}
    return client.post(
        reverse("request-task", args=["lab", "tone-7"]), asked, follow=True
    ).content.decode()


def test_task_can_be_requested_once_and_the_page_lists_the_request(client, asked):
    client.force_login(asked.alice)
    assert "No requests" in page(client)
    assert "tone-7 will sample task 7 next." in ask(
        client, "7"
    ) and "was already going to sample" in ask(client, "7")
    (waiting,) = asked.run.task_requests.waiting()
    html = page(client)
    assert waiting.task.index == 7 and waiting.by == asked.alice and "requested by alice" in html


@pytest.mark.parametrize("index", ["", "x", "-1", "9" * 30, "12345"])
def test_request_for_an_invalid_task_is_rejected_with_a_message(client, asked, index):
    client.force_login(asked.alice)
    assert "Not requested" in ask(client, index) and not asked.run.task_requests.exists()


def test_rater_cannot_request_a_task(client, asked):
    client.force_login(asked.bob)
    assert "Sample next" not in page(client)


def test_each_taskset_of_a_mixed_run_shows_its_own_tasks_and_accepts_requests(client, asked):
    project = asked.run.project
    other = taskset_of(project, "other", 3)
    plan = asked.run.config | {"taskset": None, "tasksets": {"tone": 2, "other": 1}}
    mixed = Run.create(
        project=project, slug="mixed", title="Mixed", plan=parse_config(plan), owner=asked.alice
    )
    mixed.start(by=asked.alice)
    TaskRecord.add(mixed.pk, [GroupResult(other.tasks.get(index=1).pk, 0, [1.0, 0.0])], 2, Bots())
    (drawn,) = histograms(other, [mixed, asked.run], asked.alice)
    assert (drawn.run, drawn.tried, drawn.untried) == (mixed, 1, 2)
    assert [one.run for one in histograms(asked.run.taskset, [mixed, asked.run], asked.alice)] == [
        asked.run
    ]
    client.force_login(asked.alice)
    said = {"taskset": "other", "task": "2"}
    shown = client.post(reverse("request-task", args=["lab", "mixed"]), said, follow=True)
    assert (
        shown.redirect_chain[-1][0].endswith("/tasksets/lab/other/")
        and "mixed will sample task 2 next." in shown.content.decode()
    )
    assert mixed.task_requests.get().task == other.tasks.get(index=2)
    assert (
        "taskset: "
        in client.post(
            reverse("request-task", args=["lab", "mixed"]), {"task": "2"}, follow=True
        ).content.decode()
    )
