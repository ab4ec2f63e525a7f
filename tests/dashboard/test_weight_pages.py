"""Pages of weight versions: the list, one version, what can be made of it, and who may see it."""

import io
import json
import uuid
import zipfile
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.buffer.models import Experience
from apps.dashboard import version_line
from apps.feedback.models import Demonstration, ExpertAnswer, Rating
from apps.lineage.tracing import trace_weights
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rewards.models import Reward
from apps.runs.models import Acknowledgement, ExportJob, Run, WeightVersion, Worker
from workers.policies.tiny import build_tiny

MOVED = {
    "whole": 0.00125,
    "groups": [["embedding", 0.0005], ["layer 0", 0.002], ["last norm", 0.0]],
    "sampled": False,
}


def at(name: str, *more: object) -> str:
    return reverse(name, args=["lab", "tone-7", *more])


@pytest.fixture
def alice(client, seeded):
    client.force_login(seeded.alice)
    return client


def seal(run: Run, version: int, folder) -> WeightVersion:
    """Write real weights into the folder of the version."""
    build_tiny(folder)
    run.weight_versions.filter(version=version).update(
        folder=str(folder), fingerprint=read_manifest(folder).fingerprint
    )
    return run.weight_versions.get(version=version)


# -- looking


def test_version_list_shows_parent_and_movement_of_each_version(alice, seeded):
    seeded.run.weight_versions.filter(version=1).update(movement=None)
    seeded.run.weight_versions.filter(version=2).update(movement=MOVED, pinned_at=timezone.now())
    html = alice.get(at("run-weights")).content.decode()
    assert html.count('<tr class="open">') == 4
    for words in (
        "from v1",
        "0.125 %",
        "not measured",
        ">pinned<",
        "base model",
        at("run-weight", 3),
        at("run-weight-chat", 3),
    ):
        assert words in html, words


def test_version_page_shows_its_publication_to_every_engine(alice, seeded):
    version = seeded.run.weight_versions.get(version=3)
    staged = timezone.now()
    told = {
        "staged_at": staged,
        "verified_at": staged + timedelta(milliseconds=40),
        "published_at": staged + timedelta(seconds=2),
    }
    WeightVersion.objects.filter(pk=version.pk).update(**told, movement=MOVED)
    Worker.objects.update(started_at=staged - timedelta(days=1))
    Acknowledgement.objects.filter(weight_version=version).update(
        at=staged + timedelta(seconds=2.5), fingerprint="other"
    )
    html = alice.get(at("run-weight", 3)).content.decode()
    for words in (
        "+40 ms",
        "+2.0 s",
        "+500 ms",
        "different weights",
        "layer 0",
        "0.200 %",
        "Step 3",
        "Full trace",
    ):
        assert words in html, words


def test_version_page_counts_ratings_as_its_trace_lists_them(alice, seeded):
    version = seeded.run.weight_versions.get(version=3)
    [shaping] = [one for one in trace_weights(version)[0] if one.step.number == 3]
    first = shaping.ratings[0]
    compared = Rating.objects.filter(
        item__isnull=False, pk__in=[rating.pk for rating in shaping.ratings]
    )
    compared.update(rollout=None)  # as those are kept that rank, or choose one of two
    late = Rating.objects.create(
        item=first.item,
        rollout=first.rollout,
        run=seeded.run,
        rater=seeded.alice,
        form=first.form,
        answer=first.answer,
        client_uuid=uuid.uuid4(),
        is_late=True,
        shown=first.shown,
    )
    told = version_line.find_version_origin(version)
    again = next(one for one in trace_weights(version)[0] if one.step.number == 3).ratings
    assert compared.exists() and late not in again
    assert (
        (told.ratings, told.people)
        == (len(shaping.ratings), shaping.people)
        == (len(again), shaping.people)
    )


def test_version_page_links_each_task_to_its_rollouts(alice, seeded, monkeypatch):
    monkeypatch.setattr(version_line, "TASKS_SHOWN", 1)
    version = seeded.run.weight_versions.get(version=3)
    html = alice.get(at("run-weight", 3)).content.decode()
    told = version_line.find_version_origin(version)
    assert told.task_count == len(told.tasks) > 1
    for task in told.tasks:
        assert f"{at('rollouts')}?task={task.index}&amp;from_step=3&amp;to_step=3" in html


def test_version_page_shows_rater_models_and_demonstrations(alice, seeded):
    rollout = seeded.run.rollouts.filter(experiences__step_items__step__number=3).first()
    Reward.objects.create(
        rollout=rollout, source="model", scorer="rater_model", value=0.5, details={"rater_model": 4}
    )
    shown = Demonstration.objects.create(
        project=seeded.run.project,
        run=seeded.run,
        author=seeded.bob,
        prompt=[{"role": "user", "content": "?"}],
        answer="!",
    )
    ExpertAnswer.objects.create(run=seeded.run, rollout=rollout, demonstration=shown)
    Experience.objects.filter(rollout=rollout).update(kind="expert")
    html = alice.get(at("run-weight", 3)).content.decode()
    assert at("run-trace-model", 4) in html and "1 by bob" in html


def test_version_with_a_deleted_folder_says_so_and_offers_no_export(alice, seeded):
    seeded.run.weight_versions.filter(version=1).update(state="retired")
    html = alice.get(at("run-weight", 1)).content.decode()
    assert "were deleted when newer versions" in html
    assert "Create export" not in html
    assert at("run-weight-chat", 1) not in html


def test_version_page_shows_the_contents_of_its_folder(alice, seeded, tmp_path):
    version = seal(seeded.run, 3, tmp_path / "v3")
    html = alice.get(at("run-weight", 3)).content.decode()
    manifest = read_manifest(version.folder)
    assert f"{len(manifest.files)} files, {len(manifest.tensors)} tensors" in html
    assert "model.embed_tokens.weight" in html


def test_fingerprints_and_checksums_are_shown_and_downloadable_until_deletion(
    alice, seeded, tmp_path
):
    version = seal(seeded.run, 3, tmp_path / "v3")
    manifest = read_manifest(version.folder)
    html = alice.get(at("run-weight", 3)).content.decode()
    assert version.fingerprint in html and all(
        entry.sha256 in html for entry in manifest.files.values()
    )
    assert version.fingerprint in alice.get(at("run-weights")).content.decode()
    answer = alice.get(at("run-weight-manifest", 3))
    assert "attachment" in answer["Content-Disposition"] and answer.json() == json.loads(
        manifest.to_json()
    )
    seeded.run.weight_versions.filter(version=3).update(state="retired")
    assert alice.get(at("run-weight-manifest", 3)).status_code == 404
    html = alice.get(at("run-weight", 3)).content.decode()
    assert version.fingerprint in html and "The files and the manifest" in html


def test_times_of_a_version_have_a_date_and_a_time_zone(alice, seeded):
    published = timezone.now().replace(year=2024, month=2, day=29, hour=5, minute=6, second=7)
    seeded.run.weight_versions.filter(version=3).update(published_at=published)
    assert "2024-02-29 05:06:07 UTC" in alice.get(at("run-weight", 3)).content.decode()


def test_engine_younger_than_a_version_shows_that_it_loaded_at_start(alice, seeded):
    version = seeded.run.weight_versions.get(version=3)
    WeightVersion.objects.filter(pk=version.pk).update(
        published_at=timezone.now() - timedelta(days=2)
    )
    Worker.objects.update(started_at=timezone.now() - timedelta(days=1))
    html = alice.get(at("run-weight", 3)).content.decode()
    assert "at engine start" in html and "172800" not in html


def test_blind_rater_sees_no_details_of_weight_versions(client, seeded):
    client.force_login(seeded.bob)
    seeded.run.weight_versions.filter(version=3).update(movement=MOVED, fingerprint="feedface")
    for address in (at("run-weights"), at("run-weight", 3)):
        html = client.get(address).content.decode()
        assert "You rate this run blind" in html
        assert "feedface" not in html
        assert "gauge" not in html
    assert client.get(at("run-weight-manifest", 3)).status_code == 404
    for name in ("run-weight-chat", "run-weight-now"):
        assert client.get(at(name, 3)).status_code == 403
    assert client.get(at("run-weights-compare")).status_code == 403


def test_comparison_defaults_to_base_model_and_newest_version(alice, seeded):
    chosen = alice.get(at("run-weights-compare")).context["chosen"]
    newest = seeded.run.weight_versions.latest("version")
    assert [version.version for version in chosen] == [0, newest.version] and newest.version > 1


def test_queries_do_not_grow_with_versions(alice, seeded):
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert alice.get(at("run-weights")).status_code == 200
        return len(captured)

    few = count()
    last = seeded.run.weight_versions.get(version=3)
    for number in range(4, 40):
        last = seeded.run.weight_versions.create(
            version=number, parent=last, step=3, state="published", folder="/nowhere"
        )
    assert count() <= few <= 20


# -- acting


def test_pinning_and_unpinning_a_version_are_recorded_in_the_audit_log(alice, seeded):
    for verb, kept in (("pin", True), ("unpin", False)):
        alice.post(at("run-weight-act", 2, verb))
        assert bool(seeded.run.weight_versions.get(version=2).pinned_at) is kept
    acts = (
        AuditEntry.objects.filter(target="run lab/tone-7 v2")
        .order_by("pk")
        .values_list("action", "by__username")
    )
    assert list(acts) == [("weight version kept", "alice"), ("weight version let go", "alice")]


def test_version_can_be_promoted_to_a_model_only_under_a_free_name(alice, seeded):
    answer = alice.post(at("run-weight-act", 3, "promote"), {"slug": "tone"})
    assert answer.status_code == 422
    assert "The project already has a policy tone" in answer.content.decode()
    answer = alice.post(at("run-weight-act", 3, "promote"), {"slug": "polite"}, follow=True)
    [order] = ExportJob.objects.all()
    assert order.options == {
        "slug": "polite",
        "title": "Polite replies, rated by people, version 3",
    }
    assert "waiting for a worker for" in answer.content.decode()
    assert seeded.run.weight_versions.get(version=3).pinned_at
    assert "polite" in alice.get(at("run-weight-now", 3)).content.decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"slug": "tone-7"}, "A run tone-7 already exists"),
        ({"slug": "a b"}, "Use only letters, digits"),
        ({"steps": "0"}, "greater than or equal to 1"),
        ({"stop_parent": "true", "name": "tone"}, "To stop the run as well, type tone-7"),
    ],
)
def test_invalid_branch_form_is_rejected_with_an_error(alice, seeded, wrong, words):
    answer = alice.post(at("run-weight-act", 3, "branch"), {"slug": "on", "steps": "20", **wrong})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not ExportJob.objects.exists()


def test_ordered_branch_records_whether_to_stop_its_parent(alice, seeded):
    said = {"slug": "on", "steps": "20", "stop_parent": "true", "name": "tone-7", "start": "true"}
    alice.post(at("run-weight-act", 3, "branch"), said)
    [order] = ExportJob.objects.all()
    assert order.options == {
        "slug": "on",
        "title": "Polite replies, rated by people, from version 3",
        "steps": 20,
        "start": True,
        "stop_parent": True,
    }
    assert order.by == seeded.alice


def test_branch_shows_its_parent_version_and_the_version_links_to_its_branch(alice, seeded):
    made = Run.create(project=seeded.run.project, slug="on", title="On", plan=seeded.run.settings)
    Run.objects.filter(pk=made.pk).update(branched_from=seeded.run.weight_versions.get(version=3))
    for name in ("run", "run-weights"):
        assert "v3 of tone-7" in alice.get(reverse(name, args=["lab", "on"])).content.decode()
    assert reverse("run", args=["lab", "on"]) in alice.get(at("run-weight", 3)).content.decode()


def test_an_export_is_downloaded_as_a_zip_and_deleted(alice, seeded, tmp_path):
    folder = tmp_path / "1" / "lab-tone-7-v3"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# lab-tone-7-v3")
    version = seeded.run.weight_versions.get(version=3)
    order = ExportJob.objects.create(
        weight_version=version, kind="export", state="done", folder=str(folder), bytes=15
    )
    assert at("run-weight-zip", order.pk) in alice.get(at("run-weight", 3)).content.decode()
    answer = alice.get(at("run-weight-zip", order.pk))
    assert answer["Content-Disposition"] == 'attachment; filename="lab-tone-7-v3.zip"'
    with zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))) as archive:
        assert archive.read("lab-tone-7-v3/README.md") == b"# lab-tone-7-v3"
    alice.post(at("run-weight-drop", order.pk))
    assert not folder.exists()
    assert alice.get(at("run-weight-zip", order.pk)).status_code == 404
    acts = AuditEntry.objects.filter(target="run lab/tone-7 v3", by=seeded.alice).values_list(
        "action", flat=True
    )
    assert set(acts) == {"weight version downloaded", "weight version's export deleted"}


def test_retired_version_cannot_be_exported_promoted_branched_or_pinned(alice, seeded):
    seeded.run.weight_versions.filter(version=1).update(state="retired")
    for verb, fields in (
        ("export", {}),
        ("promote", {"slug": "x"}),
        ("branch", {"slug": "y", "steps": "3"}),
        ("pin", {}),
    ):
        assert (
            "is retired"
            in alice.post(at("run-weight-act", 1, verb), fields, follow=True).content.decode()
        )
    assert not ExportJob.objects.exists()


def test_unknown_action_or_version_returns_404(alice):
    assert alice.post(at("run-weight-act", 3, "polish")).status_code == 404
    assert alice.get(at("run-weight", 99)).status_code == 404


def test_base_version_whose_folder_belongs_to_the_model_is_always_kept(alice, seeded):
    assert (
        Policy.objects.get(slug="tone").folder == seeded.run.weight_versions.get(version=0).folder
    )
    html = alice.post(at("run-weight-act", 0, "pin"), follow=True).content.decode()
    assert "which is always kept" in html
