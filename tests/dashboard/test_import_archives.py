"""A zip file of tasks in the browser: its split is chosen, and escaping paths are refused."""

import io
import zipfile

import pytest
from django.urls import reverse

from apps.tasksets.models import Taskset
from apps.tasksets.sources import archive as zip_archive
from tests.dashboard.import_pages import (  # noqa: F401  (fixtures)
    ROWS,
    State,
    alice_client,
    choose,
    folder,
    lines,
    page,
    send,
)
from workers.importing.importing import import_next_file


def packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


SPLIT = {
    "sums/train-00000.jsonl": lines(*ROWS),
    "sums/test.jsonl": lines(*ROWS[:3]),
    "sums/README.md": b"# Sums",
}


@pytest.mark.django_db(transaction=True)
def test_zip_file_is_imported_and_its_split_chosen(send, choose, page):
    one = send(packed(SPLIT), "sums.zip")
    html = page("taskset-import", one.pk)
    assert (
        "The file can’t be read with these settings: choose a split: test, train." in html
        and "<option>test</option>" in html
    )
    _, html = choose(one, "import", split="test", prompt="prompt")
    assert (
        one.state == State.LOOKED_AT and "First 3 rows" in html and one.how["prompt"] == "question"
    )
    choose(one, "import", split="test")
    assert import_next_file("test")
    assert Taskset.objects.get(slug="sums").size == 3 and not one.path.exists()


def test_dataset_saved_by_datasets_is_read_from_a_zip_file(send, page, tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    files = {f"saved/{file.name}": file.read_bytes() for file in (tmp_path / "saved").iterdir()}
    assert "all valid" in page("taskset-import", send(packed(files), "saved.zip").pk)


def test_unknown_split_is_refused(send, choose):
    one = send(packed(SPLIT), "sums.zip")
    status, html = choose(one, split="dev")
    assert status == 422 and "The dataset has no such split" in html


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK no zip", "not a readable zip file"),
        (packed({"README.md": b"no rows"}), "the archive contains no data file"),
        (
            packed({"a/../../b.jsonl": b"{}", "c.jsonl": b"{}"}),
            "has an empty part, or a part of dots only",
        ),
        (packed({"/etc/b.jsonl": b"{}"}), "is an absolute path"),
        (packed({"a.jsonl": b"{}"})[:-30], "not a readable zip file"),
    ],
    ids=["other", "empty", "up", "absolute", "cut"],
)
def test_invalid_or_escaping_zip_file_is_refused_and_leaves_no_files(send, folder, content, words):
    one = send(content, "a.zip")
    assert one.state == State.FAILED and words in one.reason and list(folder.iterdir()) == []


def test_zip_file_that_unpacks_too_large_is_refused(send, folder, monkeypatch):
    monkeypatch.setattr(zip_archive, "MAX_BYTES", 1_000_000)
    assert (
        "the unpacked archive is larger than"
        in send(packed({"a.jsonl": b" " * 1_000_001}), "a.zip").reason
    )
    assert list(folder.iterdir()) == []


def test_folder_of_a_stopped_import_is_deleted(send, alice_client, folder):
    one = send(packed(SPLIT), "sums.zip")
    assert one.path.is_dir()
    alice_client.post(reverse("taskset-import-stop", args=[one.pk]))
    assert list(folder.iterdir()) == []
