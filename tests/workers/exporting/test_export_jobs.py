"""Exports and pushes as background jobs: the files they write, the token they keep secret, the
reasons of their failures."""

import io
import json
import shutil
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.urls import reverse
from gguf import GGUFReader

from apps.accounts.models import AuditEntry
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.runs.models import ExportJob, WeightVersion
from apps.runs.models.orders import OrderOver
from tests.workers.exporting.fake_hub import GOOD, serving
from tests.workers.exporting.tiny_models import byte_level, sealed
from workers.export_jobs import runner
from workers.export_jobs.runner import run_next
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.usefixtures("forked_modules")


@pytest.fixture
def hub(settings):
    with serving() as made:
        settings.HUB_ENDPOINT = made.address
        settings.HUB_TOKEN = ""
        yield made


@pytest.fixture
def begun(transactional_db, new_run, policy, tmp_path, settings):
    """Return a function that creates version 0 of a run with the policy in a folder."""

    def begin(folder: Path) -> WeightVersion:
        settings.WEIGHTS_ROOT = tmp_path / "weights"
        fingerprint = read_manifest(folder).fingerprint
        Policy.objects.filter(pk=policy.pk).update(folder=str(folder), fingerprint=fingerprint)
        policy.refresh_from_db()
        return new_run().weight_versions.get(version=0)

    return begin


@pytest.fixture
def version(begun, tmp_path) -> WeightVersion:
    sealed(tmp_path / "policy", "llama", byte_level())
    return begun(tmp_path / "policy")


def filled(order: ExportJob) -> ExportJob:
    while run_next("test"):
        pass
    order.refresh_from_db()
    return order


def left(settings) -> list[Path]:
    return [path for path in settings.WEIGHTS_ROOT.rglob("*") if path.is_file()]


def push(version: WeightVersion, by, form: str = "folder", token: str = GOOD) -> ExportJob:
    wanted = {"form": form, "repository": "ann/polite", "is_public": False}
    return ExportJob.place("push", version, by, token, **wanted)


# -- GGUF -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["gguf-f16", "gguf-q8_0"])
def test_version_is_exported_as_a_gguf_file_with_its_modelfile(version, alice, client, form):
    order = filled(ExportJob.place("export", version, alice, form=form))
    assert (order.state, order.reason) == ("done", "")
    client.force_login(alice)
    address = ["lab", version.run.slug, 0]
    assert order.title in client.get(reverse("run-weight", args=address)).content.decode()
    zipped = client.get(reverse("run-weight-zip", args=["lab", version.run.slug, order.pk]))
    name = f"lab-{version.run.slug}-v0"
    with zipfile.ZipFile(io.BytesIO(zipped.getvalue())) as archive:
        assert archive.testzip() is None
        folder = f"{name}-{form}"
        kind = form.removeprefix("gguf-").upper()
        wanted = {f"{folder}/{file}" for file in (f"{name}-{kind}.gguf", "Modelfile", "README.md")}
        assert set(archive.namelist()) == wanted
        modelfile = archive.read(f"{folder}/Modelfile").decode()
        assert f"FROM ./{name}-{kind}.gguf" in modelfile
        assert f"PARAMETER temperature {version.run.settings.sampling.temperature:g}" in modelfile
        assert "ollama create" in archive.read(f"{folder}/README.md").decode()
    fields = GGUFReader(order.path / f"{name}-{kind}.gguf").fields
    assert version.run.address in fields["general.description"].contents()


def test_gguf_export_reports_its_progress(version, alice):
    order = ExportJob.place("export", version, alice, form="gguf-f16")
    place = runner.folder_of_export(order)
    unfinished = place.with_name(f"{place.name}.17.tmp")
    unfinished.mkdir(parents=True)
    expected = runner._expected(order)
    (unfinished / "x.gguf").write_bytes(b"0" * int(expected / 4))
    assert runner._share(order) == pytest.approx(0.25, abs=0.01)
    shutil.rmtree(place.parent)
    order = filled(order)
    assert order.bytes == pytest.approx(expected, rel=0.3)


def test_worker_that_lost_its_order_leaves_the_files_of_its_successor(version, alice, settings):
    order = ExportJob.place("export", version, alice)
    suspended = ExportJob.objects.claim("first", settings.LEASE_SECONDS)
    ExportJob.objects.update(lease_until=Now() - timedelta(seconds=1))
    runner._run(ExportJob.objects.claim("second", settings.LEASE_SECONDS))
    order.refresh_from_db()
    names = {path.name for path in order.path.iterdir()}

    with pytest.raises(OrderOver):
        runner._run(suspended)

    assert "model.safetensors" in names
    assert {path.name for path in order.path.iterdir()} == names


def test_next_attempt_removes_the_files_of_one_that_died(version, alice, settings):
    order = ExportJob.place("export", version, alice)
    died = ExportJob.objects.claim("first", settings.LEASE_SECONDS)
    remains = runner.folder_of_export(died) / "model.safetensors"
    remains.parent.mkdir(parents=True)
    remains.write_bytes(b"half")
    ExportJob.objects.update(lease_until=Now() - timedelta(seconds=1))

    order = filled(order)

    assert order.has_folder and not remains.exists()


def test_policy_that_gguf_does_not_support_is_refused_in_the_form_and_leaves_no_files(
    begun, alice, client, tmp_path, settings
):
    build_tiny(tmp_path / "sort")
    version = begun(tmp_path / "sort")
    client.force_login(alice)
    page = reverse("run-weight", args=["lab", version.run.slug, 0])
    words = "tokenizers of the type WordLevel"
    assert words in client.get(page).content.decode()
    act = reverse("run-weight-act", args=["lab", version.run.slug, 0, "export"])
    answer = client.post(act, {"form": "gguf-f16"})
    assert answer.status_code == 422 and words in answer.content.decode()
    order = filled(ExportJob.place("export", version, alice, form="gguf-f16"))
    assert order.state == "failed" and words in order.reason
    assert left(settings) == [] and not runner.folder_of_export(order).parent.exists()


def test_policys_license_file_is_included_in_the_export(begun, alice, tmp_path):
    (tmp_path / "policy.tmp").mkdir()
    (tmp_path / "policy.tmp" / "LICENSE").write_text("Free as in air.")
    sealed(tmp_path / "policy", "qwen2", byte_level())
    order = filled(ExportJob.place("export", begun(tmp_path / "policy"), alice, form="gguf-f16"))
    assert 'LICENSE """Free as in air.' in (order.path / "Modelfile").read_text()


def test_export_command_writes_gguf_and_refuses_an_adapter_of_full_weights(version, tmp_path):
    call_command(
        "weights", "export", version.run.slug, "0", str(tmp_path / "out"), form="gguf-q8_0"
    )
    assert len(list((tmp_path / "out").glob("*-Q8_0.gguf"))) == 1
    with pytest.raises(CommandError, match="has full weights, not an adapter"):
        call_command(
            "weights", "export", version.run.slug, "0", str(tmp_path / "a"), form="adapter"
        )
    assert not (tmp_path / "a").exists()


# -- the Hub --------------------------------------------------------------------------------------


def test_push_creates_a_commit_on_the_hub_and_leaves_no_local_files(
    version, alice, hub, client, settings
):
    order = push(version, alice, "gguf-f16")
    assert GOOD not in json.dumps(list(ExportJob.objects.values()), default=str)
    order = filled(order)
    assert (order.state, order.reason) == ("done", "")
    files = hub.repositories["ann/polite"]["files"]
    assert {"Modelfile", "README.md", f"lab-{version.run.slug}-v0-F16.gguf"} == set(files)
    assert hub.repositories["ann/polite"]["private"] is True
    assert order.address.startswith(f"{hub.address}/ann/polite/commit/") and not order.sealed_token
    assert left(settings) == []
    client.force_login(alice)
    page = reverse("run-weight", args=["lab", version.run.slug, 0])
    assert order.address in client.get(page).content.decode()
    [entry] = AuditEntry.objects.filter(action="weight version pushed")
    assert entry.by == alice and entry.details["commit"] == order.address
    assert GOOD not in json.dumps(list(AuditEntry.objects.values()), default=str)


def test_refused_push_reports_the_reason_and_deletes_its_token(
    version, alice, hub, settings, caplog
):
    order = filled(push(version, alice, token="hf_wrong"))
    assert order.state == "failed" and order.reason.startswith("token: rejected by the Hub")
    assert not order.sealed_token and left(settings) == []
    assert "hf_wrong" not in caplog.text


def test_push_without_an_entered_token_uses_the_installations(version, alice, hub, settings):
    assert filled(push(version, alice, token="")).reason.startswith("token: none was entered")
    settings.HUB_TOKEN = GOOD
    assert filled(push(version, alice, token="")).state == "done"


def test_token_sealed_under_another_key_is_requested_again(version, alice, hub, settings):
    order = push(version, alice)
    settings.SECRET_KEY = "k" * 50
    assert "entered more than a day ago" in filled(order).reason


def test_push_reports_its_progress(version, alice):
    order = push(version, alice)
    assert runner._share(order) == 0
    order.sending = runner.Progress(100)
    order.sending.add(100)
    assert runner._share(order) == 0.75


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"repository": "polite"}, "owner/name"),
        ({"repository": "ann/../x"}, "owner/name"),
        ({"repository": "ann/x.git"}, "owner/name"),
        ({"token": ""}, "Enter a Hub token"),
        ({"token": "hf bad"}, "letters, digits"),
        ({"form": "adapter"}, "This version has full weights"),
        ({"form": "onnx"}, "not one of the available choices"),
    ],
)
def test_invalid_push_is_refused_at_its_field(version, alice, client, hub, wrong, words):
    client.force_login(alice)
    act = reverse("run-weight-act", args=["lab", version.run.slug, 0, "push"])
    said = {"repository": "ann/polite", "token": GOOD, "form": "folder", **wrong}
    answer = client.post(act, said)
    assert answer.status_code == 422
    html = answer.content.decode()
    assert words in html and GOOD not in html
    assert not ExportJob.objects.exists() and not hub.asked


def test_push_from_the_page_is_recorded_without_its_token(version, alice, client, hub):
    client.force_login(alice)
    act = reverse("run-weight-act", args=["lab", version.run.slug, 0, "push"])
    said = {"repository": "ann/polite", "token": GOOD, "form": "gguf-q8_0"}
    html = client.post(act, said, follow=True).content.decode()
    assert "Pushing version 0 to ann/polite" in html and GOOD not in html
    [order] = ExportJob.objects.all()
    assert order.options == {"form": "gguf-q8_0", "repository": "ann/polite", "is_public": False}
    assert order.token() == GOOD and GOOD not in order.sealed_token
    [entry] = AuditEntry.objects.filter(action="weight version: push ordered")
    assert entry.details == order.options


def test_user_who_may_not_steer_the_run_cannot_push(version, bob, carol, client, hub):
    act = reverse("run-weight-act", args=["lab", version.run.slug, 0, "push"])
    for person, status in ((bob, 403), (carol, 404)):
        client.force_login(person)
        said = {"repository": "ann/polite", "token": GOOD}
        assert client.post(act, said).status_code == status
    assert not ExportJob.objects.exists()


def test_the_command_asks_for_the_token_and_pushes(version, hub, monkeypatch, capsys, settings):
    monkeypatch.setattr("getpass.getpass", lambda _: GOOD)
    call_command("weights", "push", version.run.slug, "0", "ann/polite")
    said = capsys.readouterr().out
    assert f"{hub.address}/ann/polite/commit/" in said and GOOD not in said
    assert "model.safetensors" in hub.repositories["ann/polite"]["files"]
    assert left(settings) == []
    with pytest.raises(CommandError, match="repository: 'x' is not a valid name"):
        call_command("weights", "push", version.run.slug, "0", "x")


def test_export_page_offers_all_forms_and_links(version, alice, client):
    client.force_login(alice)
    html = client.get(reverse("run-exports", args=["lab", version.run.slug])).content.decode()
    act = reverse("run-weight-act", args=["lab", version.run.slug, 0, "export"])
    for words in (act, "gguf-q8_0", "Push to the Hugging Face Hub", 'id="model"'):
        assert words in html, words
    page = client.get(reverse("run-weight", args=["lab", version.run.slug, 0])).content.decode()
    assert reverse("run-exports", args=["lab", version.run.slug]) in page
