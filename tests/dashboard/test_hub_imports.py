"""A dataset of the Hub in the browser: downloaded, previewed and imported by a worker."""

from contextlib import nullcontext

import pytest
from django.urls import reverse

from apps.tasksets.models import Taskset, TasksetImport
from tests.dashboard.import_pages import ROWS, State, alice_client, choose, folder, lines, page  # noqa: F401  (fixtures)
from workers.importing.importing import import_next_file


@pytest.fixture
def ask_hub(alice_client, project):
    def post(**asked: str) -> tuple[int, str]:
        answer = alice_client.post(reverse("taskset-import-hub", args=["lab"]), asked, follow=True)
        return answer.status_code, answer.content.decode()

    return post


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Set up a folder in the working directory that `datasets` accepts instead of a name on the
    Hub; it reads both by the same code.
    """
    pytest.importorskip("datasets")
    (tmp_path / "hub" / "lab" / "sums").mkdir(parents=True)
    for name in ("train", "test"):
        (tmp_path / "hub" / "lab" / "sums" / f"{name}.jsonl").write_bytes(lines(*ROWS))
    monkeypatch.setattr(
        "workers.importing.importing.tempfile.TemporaryDirectory",
        lambda: nullcontext(tmp_path / "hub"),
    )


@pytest.mark.django_db(transaction=True)
def test_hub_dataset_is_downloaded_previewed_and_imported(ask_hub, hub, choose, page):
    status, html = ask_hub(name="lab/sums", split="train")
    one = TasksetImport.objects.get()
    assert (
        status == 200
        and "waiting for a worker for" in html
        and "downloading" in page("taskset-imports", "lab")
    )
    assert import_next_file("test")
    one.refresh_from_db()
    assert (one.state, one.slug, one.how["prompt"]) == (State.LOOKED_AT, "sums", "question")
    assert "Preview" in page("taskset-import-now", one.pk) and "all valid" in page(
        "taskset-import", one.pk
    )
    choose(one, "import")
    assert import_next_file("test")
    assert Taskset.objects.get(slug="sums").size == 30 and not one.path.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("asked", "words"),
    [({"name": "lab/sums"}, "choose one of "), ({"name": "lab/nothing"}, "lab/nothing")],
    ids=["split", "name"],
)
def test_missing_hub_dataset_fails_with_the_message_of_the_loader(
    ask_hub, hub, page, folder, monkeypatch, asked, words
):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    ask_hub(**asked)
    assert import_next_file("test")
    one = TasksetImport.objects.get()
    assert (
        one.state == State.FAILED
        and words in one.reason
        and words in page("taskset-import", one.pk)
    )
    assert list(folder.iterdir()) == []


@pytest.mark.django_db(transaction=True)
def test_hub_dataset_that_is_too_large_fails_with_advice(ask_hub, hub, monkeypatch):
    monkeypatch.setattr("workers.importing.importing.MAX_FETCHED_BYTES", 100)
    ask_hub(name="lab/sums", split="train")
    assert import_next_file("test")
    assert "manage.py taskset import --hub" in TasksetImport.objects.get().reason


@pytest.mark.parametrize("name", ["", "/etc", "../up", "a/b/c", "--config", "a b", "lab/.hidden"])
def test_invalid_hub_name_is_refused_at_its_field(ask_hub, name):
    status, html = ask_hub(name=name)
    assert status == 422 and ("Enter the dataset’s ID" in html or "Enter a name" in html)
    assert not TasksetImport.objects.exists()
