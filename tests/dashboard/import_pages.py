"""Requests to the pages of imports, as a browser sends files and choices."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.tasksets.models import TasksetImport
from workers.importing.importing import import_next_file

ROWS = [{"question": f"{n}+1", "solution": n + 1, "level": "easy"} for n in range(30)]
CHOSEN = {
    "slug": "sums",
    "format": "auto",
    "prompt": "question",
    "answer": "solution",
    "domain": "domain",
    "follow_ups": "follow_ups",
    "meta": "meta",
    "answer_key": "value",
    "duplicates": "keep",
}
State = TasksetImport.State


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORTS_ROOT = tmp_path / "imports"
    return settings.IMPORTS_ROOT


@pytest.fixture
def alice_client(client, alice):
    client.force_login(alice)
    return client


@pytest.fixture
def send(alice_client, project):
    """Send a file as the form does, and let a worker preview it; return the import, or the text
    of the refusal.
    """

    def post(content: bytes, name: str = "my sums.jsonl") -> TasksetImport | str:
        answer = alice_client.post(
            reverse("taskset-imports", args=["lab"]), {"file": SimpleUploadedFile(name, content)}
        )
        if answer.status_code == 302:
            return previewed(TasksetImport.objects.latest("pk"))
        assert answer.status_code == 422
        return answer.content.decode()

    return post


@pytest.fixture
def choose(alice_client):
    def post(one: TasksetImport, act: str = "look", **choices: object) -> tuple[int, str]:
        address = reverse("taskset-import", args=[one.pk])
        answer = alice_client.post(address, {**CHOSEN, "act": act, **choices}, follow=True)
        one.refresh_from_db()
        if one.needs_preview:
            previewed(one)
            answer = alice_client.get(address)
        return answer.status_code, answer.content.decode()

    return post


@pytest.fixture
def page(alice_client):
    def get(name: str, *args: object) -> str:
        answer = alice_client.get(reverse(name, args=args))
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def previewed(one: TasksetImport) -> TasksetImport:
    assert import_next_file("test")
    one.refresh_from_db()
    return one


def lines(*rows: object) -> bytes:
    return b"".join(
        (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
    )
