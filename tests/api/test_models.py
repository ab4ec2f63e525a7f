"""Models over REST: added, listed, uploaded in pieces, deleted, with the checks of the pages."""

import pytest

from apps.policies.models import Policy, PolicyImport, PolicyRemoval

pytestmark = pytest.mark.django_db
State = PolicyImport.State
BYTES = "application/octet-stream"
HUB = {"project": "lab", "kind": "hub", "source": "owner/name"}


@pytest.fixture(autouse=True)
def folders(settings, tmp_path):
    settings.IMPORTS_ROOT = tmp_path / "imports"
    settings.WEIGHTS_ROOT = tmp_path / "weights"


@pytest.fixture
def hers(program, alice, project):
    return program(alice)


def test_model_import_is_requested_listed_and_stopped(hers):
    made = hers.post("models/", {**HUB, "revision": "main", "template": "chatml"})
    assert made.status_code == 201 and made.json()["state"] == "waiting"
    address = f"model-imports/{made.json()['id']}/"
    assert hers.get(address).json()["slug"] == "name"
    assert [one["id"] for one in hers.get("model-imports/").json()["items"]] == [made.json()["id"]]
    assert hers.post(f"{address}again/").status_code == 409
    assert hers.post(f"{address}stop/").json()["reason"] == "stopped by alice"
    assert hers.post(f"{address}stop/").status_code == 409


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({**HUB, "source": "name"}, "source"),
        ({**HUB, "project": "elsewhere"}, "project"),
        ({**HUB, "slug": "a b"}, "slug"),
        ({**HUB, "kind": "folder"}, "kind"),
        ({**HUB, "template": "own"}, "template_text"),
        ({"project": "lab", "kind": "server", "source": "/etc"}, "source"),
        ({"project": "lab", "kind": "upload", "slug": "a", "files": {"a.bin": 3}}, "files"),
        ({"project": "lab", "kind": "upload", "slug": "a", "files": {"a.gguf": "x"}}, "files"),
    ],
)
def test_invalid_model_import_is_refused_by_field(hers, said, field):
    answer = hers.post("models/", said)
    assert answer.status_code == 422
    assert [name.split(".")[0] for name in answer.json()["errors"]] == [field]
    assert not PolicyImport.objects.exists()


def test_files_are_uploaded_in_pieces_and_the_import_starts_when_complete(hers):
    asked = {"project": "lab", "kind": "upload", "slug": "mine", "files": {"a.gguf": 6}}
    made = hers.post("models/", asked).json()
    assert made["state"] == "uploading"
    address = f"model-imports/{made['id']}/"

    def send(name: str, offset: int, piece: bytes) -> tuple[int, dict]:
        path = f"{address}files/{name}/?offset={offset}"
        answer = hers.send(path, piece, BYTES, "put")
        return answer.status_code, answer.json()

    assert send("a.gguf", 0, b"GGUF") == (200, {"received": 4})
    assert hers.post(f"{address}start/").status_code == 422
    assert send("a.gguf", 5, b"6")[0] == 409
    assert send("a.gguf", 4, b"567")[0] == 422
    assert send("b.gguf", 0, b"1")[0] == 422
    assert send("a.gguf", 4, b"56") == (200, {"received": 6})
    assert hers.get(address).json()["received"] == {"a.gguf": 6}
    assert hers.post(f"{address}start/").json()["state"] == "waiting"
    assert send("a.gguf", 0, b"G")[0] == 409


def test_owner_can_delete_an_unused_model(hers, program, bob, policy):
    address = f"models/{policy.pk}/"
    assert hers.get(address).json()["in_use"] == ""
    assert [one["slug"] for one in hers.get("models/").json()["items"]] == [policy.slug]
    assert program(bob).send(address, b"", verb="delete").status_code == 403
    assert program(bob).get(address).status_code == 200
    assert hers.send(address, b"", verb="delete").status_code == 204
    assert not Policy.objects.exists() and PolicyRemoval.objects.count() == 1


def test_model_in_use_shows_its_run_and_cannot_be_deleted(hers, policy, run):
    address = f"models/{policy.pk}/"
    assert run.slug in hers.get(address).json()["in_use"]
    refused = hers.send(address, b"", verb="delete")
    assert refused.status_code == 409 and run.slug in refused.json()["detail"]


def test_token_with_read_scope_cannot_add_a_model(program, alice, project):
    assert program(alice, "read").post("models/", HUB).status_code == 403
