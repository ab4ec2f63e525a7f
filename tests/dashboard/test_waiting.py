"""Work that waits for a worker shows how long it has waited, what is ahead, and what to do when no
worker comes.
"""

import re

import pytest
from django.template import Context, Template

from apps.dashboard.templatetags.waiting_marks import waiting_for_scorer
from apps.runs.models import Worker, after
from apps.tasksets.models import TasksetImport


@pytest.fixture
def imports(project) -> list[TasksetImport]:
    """Create two waiting imports, both 40 s old."""
    made = [
        TasksetImport.objects.create(project=project, name=name, bytes=1, state="waiting")
        for name in ("first", "second")
    ]
    TasksetImport.objects.update(created_at=after(-40))
    return made


def shown(work: TasksetImport) -> str:
    work.refresh_from_db()
    page = Template("{% load waiting_marks %}{% waiting_for_worker work %}")
    text = re.sub(r"<[^>]*>", "", page.render(Context({"work": work})))
    return " ".join(text.split())


def test_waiting_work_shows_its_age_and_queue_position(imports):
    first, second = imports
    assert shown(first) == "waiting for a worker for 40 s; starts within a few seconds"
    assert shown(second) == "waiting for a worker for 40 s, 1 ahead in the queue"


def test_waiting_work_shows_the_delay_of_the_control_plane_and_what_to_do(imports):
    Worker.every.create(key="web@here:1:1", role="web", host="here", pid=1)
    Worker.every.update(started_at=after(-200))
    words = shown(imports[0])
    assert "No sweep for 3 min" in words and "manage.py up --only control" in words


def test_waiting_for_scorer_tells_whether_a_scorer_is_active(imports):
    assert not waiting_for_scorer(imports[0])["is_served"]
    scorer = Worker.objects.create(key="scorer@here:1:1", role="scorer", host="here", pid=1)
    assert waiting_for_scorer(imports[1]) == {
        "work": imports[1],
        "ahead": 1,
        "is_served": True,
        "goes_first": False,
    }
    Worker.objects.filter(pk=scorer.pk).update(order="drain")
    assert not waiting_for_scorer(imports[0])["is_served"]
