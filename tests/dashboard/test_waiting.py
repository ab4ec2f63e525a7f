"""What waits for a worker says for how long, what is ahead of it, and what to do when nobody
comes.
"""

import re

import pytest
from django.template import Context, Template

from apps.dashboard.templatetags.waiting_marks import waiting_for_scorer
from apps.runs.models import Worker, after
from apps.tasksets.models import TasksetImport


@pytest.fixture
def imports(project) -> list[TasksetImport]:
    """Two that wait, the newer one for 40 s."""
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


def test_it_says_for_how_long_and_what_is_ahead(imports):
    first, second = imports
    assert shown(first) == "waiting for a worker for 40 s; starts within a few seconds"
    assert shown(second) == "waiting for a worker for 40 s, 1 ahead in the queue"


def test_it_says_how_far_behind_the_control_plane_is_and_what_to_do(imports):
    Worker.every.create(key="web@here:1:1", role="web", host="here", pid=1)
    Worker.every.update(started_at=after(-200))
    words = shown(imports[0])
    assert "No sweep for 3 min" in words and "manage.py up --only control" in words


def test_a_set_to_score_again_says_whether_a_scorer_is_there(imports):
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
