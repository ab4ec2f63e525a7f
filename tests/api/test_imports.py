"""Files over REST: tasks are uploaded, previewed by a worker and imported; lessons are
previewed or stored."""

import gzip
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from apps.feedback.models import Demonstration
from apps.tasksets.models import Taskset
from workers.importing.importing import import_next_file

ROWS = [{"question": f"{n}+1?", "answer": f"It is so.\n#### {n + 1}", "id": n} for n in range(3)]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
ALPACA = json.dumps(
    [{"instruction": "Greet.", "input": "", "output": "Hello.", "source": "x"}]
).encode()


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORTS_ROOT = tmp_path / "imports"
    return settings.IMPORTS_ROOT


@pytest.fixture
def send(client, program):
    """Send a form as a program of this user; return the status and the document."""

    def post(
        user, address: str, content: bytes, name: str = "a.jsonl", **fields: str
    ) -> tuple[int, dict]:
        data = {"project": "lab", "file": SimpleUploadedFile(name, content), **fields}
        answer = client.post(f"/api/v1/{address}/", data, headers=program(user).headers)
        return answer.status_code, answer.json()

    return post


@pytest.fixture
def ask(client, program):
    def get(user, address: str, body: dict | None = None) -> tuple[int, dict]:
        headers = program(user).headers
        if body is None:
            answer = client.get(f"/api/v1/{address}/", headers=headers)
        else:
            answer = client.post(
                f"/api/v1/{address}/",
                json.dumps(body),
                content_type="application/json",
                headers=headers,
            )
        return answer.status_code, answer.json()

    return get


@pytest.mark.django_db(transaction=True)
def test_task_file_is_uploaded_previewed_and_imported(send, ask, alice, project):
    status, sent = send(alice, "imports", gzip.compress(LINES), "sums.jsonl.gz")
    assert (status, sent["preview"]) == (201, None)
    assert ask(alice, f"imports/{sent['id']}/start", {"slug": "sums"})[0] == 409
    assert import_next_file("test")
    _, seen = ask(alice, f"imports/{sent['id']}")
    preview = seen["preview"]
    assert preview["layout"] == "GSM8K: question, and an answer that ends with ####"
    assert (preview["rows"][0]["answer"], preview["not_taken"]) == ({"value": "1"}, {"id": 3})
    status, started = ask(
        alice, f"imports/{sent['id']}/start", {"slug": "sums", "more_meta": ["id"]}
    )
    assert (status, started["state"]) == (200, "waiting")
    assert import_next_file("test")
    _, done = ask(alice, f"imports/{sent['id']}")
    assert (done["state"], done["taskset"], done["rows"]) == ("done", "sums", 3)
    task = Taskset.objects.get(slug="sums").tasks.get(index=2)
    assert (task.answer, task.meta["id"]) == ({"value": "3"}, 2)
    assert [one["id"] for one in ask(alice, "imports")[1]["items"]] == [sent["id"]]


@pytest.mark.django_db(transaction=True)
def test_invalid_import_choices_are_refused_by_field(send, ask, alice, project, taskset):
    _, sent = send(alice, "imports", LINES)
    assert import_next_file("test")
    start = f"imports/{sent['id']}/start"
    assert "already exists" in ask(alice, start, {"slug": "sort"})[1]["errors"]["slug"][0]
    assert (
        "Taskset 'x' does not exist"
        in ask(alice, start, {"slug": "a", "version_of": "x"})[1]["errors"]["version_of"][0]
    )
    assert (
        "operators"
        in ask(alice, start, {"slug": "a", "operators": "- operator: nothing"})[1]["errors"]
    )
    assert "layout" in ask(alice, start, {"slug": "a", "layout": "nothing"})[1]["errors"]
    assert ask(alice, f"imports/{sent['id']}/stop", {})[1]["state"] == "stopped"
    assert ask(alice, start, {"slug": "a"})[0] == 409


def test_lessons_are_previewed_and_then_stored(send, alice, project):
    status, seen = send(alice, "lessons", ALPACA, "a.json", kind="demonstrations", preview="true")
    assert (status, seen["stored"], seen["new"], seen["not_taken"]) == (
        200,
        False,
        1,
        {"source": 1},
    )
    assert seen["lessons"][0]["values"] == {"answer": "Hello."}
    assert not Demonstration.objects.exists()
    status, done = send(alice, "lessons", ALPACA, "a.json", kind="demonstrations")
    assert (status, done["stored"], done["new"], done["layout"]) == (
        200,
        True,
        1,
        "Alpaca: instruction, input and output",
    )
    assert Demonstration.objects.get().source == "a.json"


@pytest.mark.parametrize(
    ("content", "fields", "field", "words"),
    [
        (b'{"prompt": "a"}\n', {}, "file", "no column 'answer'"),
        (b"PAR1", {}, "file", "not a readable Parquet file"),
        (ALPACA, {"kind": "wishes"}, "kind", "Must be one of "),
        (ALPACA, {"layout": "gsm8k"}, "layout", "Must be one of "),
        (ALPACA, {"layout": "shp"}, "layout", "has no demonstrations"),
        (ALPACA, {"taskset": "gone"}, "taskset", "no taskset 'gone'"),
        (ALPACA, {"project": "other"}, "project", "not a member of a project 'other'"),
        (ALPACA, {"colour": "red"}, "colour", "Unknown field"),
    ],
)
def test_bad_lessons_are_refused_by_field(send, alice, project, content, fields, field, words):
    status, problem = send(alice, "lessons", content, **{"kind": "demonstrations", **fields})
    assert status == 422
    assert words in " ".join(problem["errors"][field])
    assert not Demonstration.objects.exists()


def test_raters_and_strangers_cannot_import(send, bob, carol, project):
    for user, status in ((bob, 403), (carol, 422)):
        assert send(user, "lessons", ALPACA, kind="demonstrations")[0] == status
        assert send(user, "imports", LINES)[0] == status
