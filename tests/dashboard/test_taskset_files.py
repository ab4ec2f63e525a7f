"""The pages for a taskset's files and its overlap with another taskset."""

import pytest
from django.urls import reverse

from apps.dashboard.views import taskset_files
from apps.tasksets.importing import generate, import_file
from apps.tasksets.models import Taskset
from apps.tasksets.storing import Origin


@pytest.fixture
def sets(project, tmp_path) -> tuple[Taskset, Taskset]:
    """Create `train` with twenty tasks, and `test` with the first three and one of its own."""
    train = generate(project, "train", "sort", 20, seed=1)
    said = [task.prompt[-1]["content"] for task in train.tasks.order_by("index")[:3]]
    (tmp_path / "a.csv").write_text(
        "\n".join(["prompt,answer", *(f'"{text}",1' for text in [*said, "of its own"])])
    )
    return import_file(tmp_path / "a.csv", Origin(project, "test", "Test", "a.csv")), train


@pytest.fixture
def page(client, alice):
    client.force_login(alice)

    def get(name: str, *args: str, **query: str):
        answer = client.get(reverse(name, args=["lab", *args]), query)
        return answer.status_code, (
            answer.content.decode() if not answer.streaming else b"".join(answer.streaming_content)
        )

    return get


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_downloaded_taskset_imports_again_with_the_same_digest(
    page, sets, project, tmp_path, format
):
    status, content = page("taskset-export", "train", format)
    (tmp_path / f"b.{format}").write_bytes(content)
    back = import_file(tmp_path / f"b.{format}", Origin(project, "back", "Back", "b"))
    assert (status, back.digest) == (200, sets[1].digest)


def test_unknown_export_format_returns_404(page, sets):
    assert page("taskset-export", "train", "xml")[0] == 404


def test_overlap_page_shows_count_and_common_tasks(page, sets):
    status, html = page("taskset-overlap", "test", **{"with": "train"})
    assert status == 200 and "3 exact, 0 near" in html and "75 %" in html
    assert "of its own" not in html and sets[0].tasks.get(index=0).question in html


def test_tasksets_without_common_tasks_say_so(page, sets, project, tmp_path):
    (tmp_path / "c.csv").write_text("prompt,answer\nnothing like it,1\n")
    import_file(tmp_path / "c.csv", Origin(project, "other", "Other", "c.csv"))
    assert "No common tasks" in page("taskset-overlap", "other", **{"with": "train"})[1]


def test_tasksets_too_large_for_the_page_show_the_command(page, sets, monkeypatch):
    monkeypatch.setattr(taskset_files, "MAX_TASKS", 10)
    assert (
        "manage.py taskset overlap test train"
        in page("taskset-overlap", "test", **{"with": "train"})[1]
    )


@pytest.mark.parametrize("wanted", ["nothing", "test"])
def test_overlap_with_an_unsuitable_taskset_returns_404(page, sets, wanted):
    assert page("taskset-overlap", "test", **{"with": wanted})[0] == 404


def test_raters_see_tasks_but_no_export_link(client, bob, sets):
    client.force_login(bob)
    html = client.get(reverse("taskset", args=["lab", "test"])).content.decode()
    assert "export.jsonl" not in html and "of its own" in html
