"""What is pushed to the Hub, and the errors when a push fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.workers.exporting.fake_hub import GOOD, READ_ONLY, FakeHub, serving
from workers.exporting.destination import Destination, NotPushed, Progress, push_folder


@pytest.fixture
def hub():
    with serving() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    (made / "README.md").write_text("---\ntags:\n- rftweb\n---\n\n# it\n")
    (made / "model.safetensors").write_bytes(os.urandom(300_000))
    return made


def pushed(folder: Path, hub: FakeHub, token: str = GOOD, is_private: bool = True) -> str:
    to = Destination("ann/polite", token, is_private, hub.address)
    return push_folder(folder, to, "run lab/tone", Progress(1))


def test_folder_is_pushed_unchanged_to_a_new_private_repository(folder, hub):
    progress = Progress(sum(path.stat().st_size for path in folder.iterdir()))
    address = push_folder(
        folder, Destination("ann/polite", GOOD, True, hub.address), "said", progress
    )
    assert address == f"{hub.address}/ann/polite/commit/{'c' * 40}"
    made = hub.repositories["ann/polite"]
    assert made["private"] is True
    assert made["files"] == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert 0.95 < progress.share <= 1.0


def test_repository_can_be_public_and_updated(folder, hub):
    pushed(folder, hub, is_private=False)
    (folder / "README.md").write_text("---\ntags:\n- rftweb\n---\n\n# newer\n")
    pushed(folder, hub, is_private=False)
    made = hub.repositories["ann/polite"]
    assert made["private"] is False
    assert b"newer" in made["files"]["README.md"]


def test_private_push_to_a_public_repository_is_refused(folder, hub):
    pushed(folder, hub, is_private=False)
    asked = len(hub.asked)
    with pytest.raises(NotPushed, match="repository: ann/polite is already public"):
        pushed(folder, hub)
    assert not [one for one in hub.asked[asked:] if one.startswith("POST")]


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("hf_wrong", r"token: rejected by the Hub \(401\)"),
        (READ_ONLY, r"token: has no write access to ann/polite \(403\)"),
    ],
)
def test_rejected_token_is_reported_without_showing_it(folder, hub, token, words):
    with pytest.raises(NotPushed, match=words) as refused:
        pushed(folder, hub, token)
    assert token not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("part", "status", "words"),
    [
        (
            "/repos/create",
            409,
            r"repository: .* is already used on the Hub \(409\): You already created",
        ),
        ("/commit/", 413, r"repository: a file is too large for the Hub \(413\)"),
        ("/preupload/", 429, r"network: the Hub's rate limit"),
        ("/upload/", 403, r"token: has no write access"),
        ("/repos/create", 418, r"network: the Hub responded with status 418"),
    ],
)
def test_refusal_of_the_hub_is_reported_with_the_field(
    folder, hub, part, status, words, monkeypatch
):
    hub.refused[part] = (status, "You already created this model repo")
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    with pytest.raises(NotPushed, match=words):
        pushed(folder, hub)


def test_unreachable_hub_is_reported(folder):
    keeper, port = kept_port()
    address = f"http://127.0.0.1:{port}"
    with keeper, pytest.raises(NotPushed, match=f"network: the Hub at {address} cannot be reached"):
        push_folder(folder, Destination("ann/polite", GOOD, True, address), "said", Progress(1))


def test_repr_of_a_destination_does_not_show_its_token():
    assert GOOD not in repr(Destination("ann/polite", GOOD))


def test_missing_huggingface_hub_package_is_reported(folder, hub, monkeypatch):
    monkeypatch.delitem(sys.modules, "workers.exporting.hub", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(NotPushed, match="is not installed"):
        pushed(folder, hub)


def test_export_runner_imports_neither_torch_nor_huggingface_hub():
    heavy = "{'torch', 'huggingface_hub', 'gguf'}"
    told = (
        "import django, sys; django.setup(); import workers.export_jobs.runner; "
        f"print({heavy} & {{*sys.modules}})"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "rftweb.settings"}
    done = subprocess.run(
        [sys.executable, "-c", told], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
