"""Model folders as the Hub's tools create them: snapshots of links, and downloads with metadata
files.
"""

import os
from pathlib import Path

import pytest

from apps.policies.damage import DamagedWeights
from apps.policies.folder import list_safe_files, scan_policy_folder
from apps.policies.hub_cache import copy_snapshot, snapshot_in
from tests.policies.conftest import write_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Create a model's cache with one snapshot, whose files are links."""
    cache = tmp_path / "hub" / "models--owner--name"
    snapshot = cache / "snapshots" / COMMIT
    for folder in (cache / "blobs", cache / "refs", snapshot):
        folder.mkdir(parents=True)
    (cache / "refs" / "main").write_text(COMMIT)
    for number, path in enumerate(sorted(write_folder(tmp_path / "model").iterdir())):
        os.rename(path, cache / "blobs" / f"blob{number}")
        (snapshot / path.name).symlink_to(f"../../blobs/blob{number}")
    (snapshot / "pytorch_model.bin").symlink_to("../../blobs/blob0")
    (snapshot / "onnx").mkdir()
    return cache


@pytest.mark.parametrize("named", ["snapshot", "cache", "link"])
def test_snapshot_is_copied_with_the_contents_of_its_blobs(cache, tmp_path, named):
    snapshot = cache / "snapshots" / COMMIT
    (tmp_path / "link").symlink_to(snapshot)
    folder = {"snapshot": snapshot, "cache": cache, "link": tmp_path / "link"}[named]
    copy_snapshot(snapshot_in(folder, "main"), tmp_path / "copy")
    assert set(scan_policy_folder(tmp_path / "copy").files) == {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
    }
    assert not [path for path in (tmp_path / "copy").iterdir() if path.is_symlink()]


def test_revision_may_be_a_commit_and_a_missing_one_is_reported(cache):
    assert snapshot_in(cache, COMMIT) == cache / "snapshots" / COMMIT
    with pytest.raises(DamagedWeights, match="no revision 'v2'; it has main"):
        snapshot_in(cache, "v2")


@pytest.mark.parametrize("revision", ["../../../elsewhere", "..", ".", "a/b", ""])
def test_revision_cannot_point_outside_the_cache(cache, revision):
    (cache / "refs" / "evil").write_text(revision)
    for name in (revision, "evil"):
        with pytest.raises(DamagedWeights):
            snapshot_in(cache, name)


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "../../../../secret",
        "../../blobs/../../../secret",
        "../../blobs/onward",
        "../../refs/main",
        "tokenizer.json",
        "../../blobs",
        "../../blobs/gone",
        "../../../models--other--model/blobs/theirs",
    ],
)
def test_link_to_anything_but_a_blob_of_the_same_cache_is_refused(cache, tmp_path, target):
    (tmp_path / "secret").write_text("{}")
    (cache / "blobs" / "onward").symlink_to(tmp_path / "secret")
    theirs = cache.parent / "models--other--model" / "blobs"
    theirs.mkdir(parents=True)
    (theirs / "theirs").write_text("{}")
    config = cache / "snapshots" / COMMIT / "config.json"
    config.unlink()
    config.symlink_to(target)
    with pytest.raises((DamagedWeights, OSError)):
        copy_snapshot(snapshot_in(cache, "main"), tmp_path / "copy")
    assert not (tmp_path / "copy" / "config.json").exists()


def test_blobs_folder_that_is_a_link_is_refused(cache, tmp_path):
    os.rename(cache / "blobs", tmp_path / "elsewhere")
    (cache / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedWeights, match="link"):
        copy_snapshot(snapshot_in(cache, "main"), tmp_path / "copy")


def test_ordinary_folder_is_not_a_hub_cache(unsealed):
    assert snapshot_in(unsealed, "main") is None


def test_downloader_folder_is_skipped_only_on_request_and_only_if_it_is_no_link(
    unsealed,
):
    (unsealed / ".cache" / "huggingface").mkdir(parents=True)
    names = frozenset({".cache"})
    assert "config.json" in list_safe_files(unsealed, names)
    with pytest.raises(DamagedWeights):
        scan_policy_folder(unsealed)
    (unsealed / ".cache" / "huggingface").rmdir()
    (unsealed / ".cache").rmdir()
    (unsealed / ".cache").symlink_to(unsealed.parent)
    with pytest.raises(DamagedWeights):
        list_safe_files(unsealed, names)
