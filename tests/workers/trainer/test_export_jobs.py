"""Jobs on weight versions: new models, branches, and exported folders for other programs."""

import io
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.accounts.models import AuditEntry
from apps.policies.exporting import zipped
from apps.policies.manifest import read_manifest, verify_folder
from apps.runs.models import ExportJob, NotPossible, Run
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers import weights
from workers.export_jobs import runner
from workers.export_jobs.runner import run_next

LORA = {"rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
BRANCH = {"slug": "again", "title": "Again", "steps": 4, "start": True, "stop_parent": True}


@pytest.fixture
def trained(tiny_run, new_loop) -> Run:
    return train_to_the_end(new_loop(), tiny_run(steps=2))


def filled(order: ExportJob) -> ExportJob:
    while run_next("test"):
        pass
    order.refresh_from_db()
    return order


def says(folder: Path, probe) -> list[float]:
    """Return the probe's logprobs, loading the folder like any user of transformers."""
    return weights.probe_logprobs(AutoModelForCausalLM.from_pretrained(folder), probe.token_ids)


def test_exported_version_has_the_logprobs_it_was_trained_to(trained, alice):
    version = trained.weight_versions.get(version=2)
    order = filled(ExportJob.place("export", version, alice))
    assert (order.state, order.reason) == ("done", "")
    probe = read_manifest(version.folder).probe
    assert says(Path(order.folder), probe) == pytest.approx(probe.logprobs, abs=1e-5)
    assert probe.logprobs != read_manifest(trained.policy.folder).probe.logprobs
    names = {path.name for path in Path(order.folder).iterdir()}
    assert {
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    } <= names
    assert "manifest.json" not in names
    assert order.bytes == sum(path.stat().st_size for path in Path(order.folder).iterdir())
    assert AutoTokenizer.from_pretrained(order.folder).chat_template


def test_model_card_names_the_run_version_and_base_model(trained, alice):
    version = trained.weight_versions.get(version=2)
    card = (
        Path(filled(ExportJob.place("export", version, alice)).folder) / "README.md"
    ).read_text()
    for words in (
        trained.address,
        version.fingerprint,
        "weight version 2, taken after update 2",
        "`tiny`",
        "sort",
    ):
        assert words in card


def test_an_adapter_is_exported_merged(tiny_run, new_loop, alice):
    run = train_to_the_end(new_loop(), tiny_run(steps=1, lora=LORA))
    version = run.weight_versions.get(version=1)
    order = filled(ExportJob.place("export", version, alice))
    assert (order.state, order.reason) == ("done", "")
    probe = read_manifest(version.folder).probe
    assert says(Path(order.folder), probe) == pytest.approx(probe.logprobs, abs=1e-4)
    assert "merged into its base" in (Path(order.folder) / "README.md").read_text()


def test_downloaded_adapter_loads_with_peft_on_its_base(
    tiny_run, new_loop, alice, client, tmp_path
):
    run = train_to_the_end(new_loop(), tiny_run(steps=1, lora=LORA))
    client.force_login(alice)
    address = reverse("run-weight-adapter", args=["lab", run.slug, 1])
    assert address in client.get(reverse("run-weight", args=["lab", run.slug, 1])).content.decode()
    with zipfile.ZipFile(io.BytesIO(client.get(address).getvalue())) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "given")
    [folder] = (tmp_path / "given").iterdir()
    assert str(run.policy.folder) not in (folder / "adapter_config.json").read_text()
    probe = read_manifest(run.weight_versions.get(version=1).folder).probe
    base = AutoModelForCausalLM.from_pretrained(run.policy.folder)
    said = weights.probe_logprobs(PeftModel.from_pretrained(base, folder), probe.token_ids)
    assert said == pytest.approx(probe.logprobs, abs=1e-4)
    assert client.get(reverse("run-weight-adapter", args=["lab", run.slug, 0])).status_code == 404


def test_zip_contains_the_exact_folder_and_is_streamed_in_pieces(trained, alice):
    folder = Path(
        filled(ExportJob.place("export", trained.weight_versions.get(version=1), alice)).folder
    )
    pieces = list(zipped(folder))
    assert max(map(len, pieces)) < 1.1 * (1 << 20)
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()
        }


def test_promoted_version_becomes_a_model_and_is_pinned(trained, alice):
    version = trained.weight_versions.get(version=1)
    order = filled(
        ExportJob.place("promote", version, alice, slug="polite", title="The polite one")
    )
    policy = order.policy
    assert (policy.slug, policy.title, policy.source, policy.created_by) == (
        "polite",
        "The polite one",
        "run-0@1",
        alice,
    )
    assert verify_folder(policy.folder).fingerprint == version.fingerprint == policy.fingerprint
    version.refresh_from_db()
    assert version.pinned_at
    acts = AuditEntry.objects.filter(by=alice, target="run lab/run-0 v1").values_list(
        "action", flat=True
    )
    assert set(acts) == {
        "weight version kept",
        "weight version: promote ordered",
        "policy created from weight version",
    }


def test_promotion_to_an_existing_name_fails_with_the_reason(trained, alice):
    order = filled(
        ExportJob.place(
            "promote", trained.weight_versions.get(version=1), alice, slug="tiny", title="Again"
        )
    )
    assert order.state == "failed"
    assert "tiny" in order.reason


def test_branch_reports_how_much_of_its_policy_is_written(tiny_run, settings, alice):
    run = tiny_run(steps=6)
    version = run.weight_versions.create(
        version=3, step=3, state="published", folder="/nowhere", bytes=1000
    )
    order = ExportJob.place("branch", version, alice, **BRANCH)
    assert runner._share(order) == 0
    unfinished = settings.WEIGHTS_ROOT / "policies" / "lab-run-0-v3.17.tmp"
    unfinished.mkdir(parents=True)
    (unfinished / "model.safetensors").write_bytes(b"0" * 250)
    assert runner._share(order) == 0.25


def test_branch_starts_from_the_version_and_names_its_parent(tiny_run, new_loop, alice):
    run = tiny_run(steps=6)
    loop = new_loop()
    feed(run)
    loop.serve()
    version = run.weight_versions.get(version=1)
    order = filled(ExportJob.place("branch", version, alice, **BRANCH))
    assert (order.state, order.reason) == ("done", "")
    made = order.run
    assert (made.slug, made.state, made.planned_steps, made.branched_from, made.owner) == (
        "again",
        "running",
        4,
        version,
        alice,
    )
    assert made.weight_versions.get(version=0).fingerprint == version.fingerprint
    assert made.settings.algorithm.reference.policy == "tiny"
    run.refresh_from_db()
    assert (run.state, run.state_reason) == ("stopped", "again continues from its version 1")
    assert list(version.branches.all()) == [made]
    made = train_to_the_end(loop, made)
    assert made.step == 4


def test_failed_branch_leaves_its_parent_running(tiny_run, new_loop, alice):
    run = tiny_run(steps=6)
    loop = new_loop()
    feed(run)
    loop.serve()
    order = filled(
        ExportJob.place(
            "branch", run.weight_versions.get(version=1), alice, **{**BRANCH, "slug": run.slug}
        )
    )
    run.refresh_from_db()
    assert (order.state, run.state) == ("failed", "running")
    assert run.slug in order.reason


def test_job_continued_after_its_worker_died_creates_one_branch(trained, alice):
    order = ExportJob.place(
        "branch", trained.weight_versions.get(version=2), alice, **{**BRANCH, "stop_parent": False}
    )
    filled(order)
    ExportJob.objects.filter(pk=order.pk).update(state="running", lease_until=None, run=None)
    assert filled(order).run.slug == "again"
    assert Run.objects.count() == 2


def test_job_fails_after_three_workers_died(trained, alice):
    order = ExportJob.place("export", trained.weight_versions.get(version=2), alice)
    ExportJob.objects.filter(pk=order.pk).update(attempts=3)
    assert filled(order).reason == "the worker stopped during each of 3 attempts"


def test_a_pinned_version_keeps_its_folder(tiny_run, new_loop, alice):
    run = tiny_run(checkpoints={"every": 2, "weights": 2})
    loop = new_loop()
    feed(run)
    loop.serve()
    run.weight_versions.get(version=1).pin(alice)
    run = train_to_the_end(loop, run)
    assert {one.version for one in run.weight_versions.all() if Path(one.folder).exists()} == {
        0,
        1,
        5,
        6,
    }
    run.weight_versions.get(version=1).pin(alice, is_kept=False)
    assert run.weight_versions.get(version=1).pinned_at is None


def test_retired_version_cannot_be_promoted(tiny_run, new_loop, alice):
    run = train_to_the_end(new_loop(), tiny_run(checkpoints={"every": 2, "weights": 2}))
    with pytest.raises(NotPossible, match="it is retired"):
        ExportJob.place(
            "promote", run.weight_versions.get(version=1), alice, slug="late", title="Late"
        )


def test_command_exports_a_version_and_lists_existing_ones(trained, tmp_path, capsys):
    call_command("weights", "export", trained.slug, "1", str(tmp_path / "out"))
    assert "MB in" in capsys.readouterr().out
    assert says(
        tmp_path / "out", read_manifest(trained.weight_versions.get(version=1).folder).probe
    )
    with pytest.raises(CommandError, match="already exists"):
        call_command("weights", "export", trained.slug, "1", str(tmp_path / "out"))
    with pytest.raises(CommandError, match="it has 0, 1, 2"):
        call_command("weights", "export", trained.slug, "9", str(tmp_path / "none"))
