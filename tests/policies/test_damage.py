"""Every kind of damage to a sealed weight version is refused with a separate kind and a message."""

import json
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from apps.policies.manifest import (
    Damage,
    DamagedWeights,
    Probe,
    read_manifest,
    scan_policy_folder,
    seal_folder,
    verify_folder,
)
from tests.policies.conftest import PROBE, tensors, write_folder

WEIGHTS = "model.safetensors"


def refused(folder: Path, like=None) -> DamagedWeights:
    """Return the refusal; it is the same with the manifest's fingerprint as without."""
    alone = _refusal(folder, like, None)
    knowing = _refusal(folder, like, _written_fingerprint(folder))
    assert str(knowing) == str(alone)
    return alone


def _refusal(folder: Path, like, fingerprint: str | None) -> DamagedWeights:
    with pytest.raises(DamagedWeights) as caught:
        verify_folder(folder, like, fingerprint)
    assert caught.value.detail and caught.value.file
    assert str(folder.parent) not in str(caught.value)
    return caught.value


def _written_fingerprint(folder: Path) -> str:
    try:
        return read_manifest(folder).fingerprint
    except DamagedWeights:
        return "0" * 16


def resealed(tmp_path: Path, contents: dict[str, np.ndarray]):
    """Seal another valid version whose tensors are `contents`."""
    return seal_folder(
        write_folder(tmp_path / "other.tmp", contents), tmp_path / "other", 4, 3, PROBE
    )


def header_of(path: Path) -> tuple[dict, bytes]:
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def write_file(path: Path, header: str, body: bytes) -> None:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + body)


def test_intact_version_passes_and_returns_its_manifest(sealed):
    manifest = verify_folder(sealed)
    assert verify_folder(sealed, fingerprint=manifest.fingerprint) == manifest
    assert (manifest.version, manifest.parent, manifest.probe) == (3, 2, PROBE)
    assert manifest.tensors["embed.weight"].shape == (12, 8)
    assert set(manifest.files) == {WEIGHTS, "config.json", "tokenizer.json"}
    assert not sealed.with_name("version-3.tmp").exists()


def test_truncated_file_is_refused(sealed):
    os.truncate(sealed / WEIGHTS, (sealed / WEIGHTS).stat().st_size - 1)
    assert refused(sealed).kind == Damage.TRUNCATED


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
def test_one_flipped_bit_is_refused(sealed, name):
    raw = bytearray((sealed / name).read_bytes())
    raw[-1] ^= 1
    (sealed / name).write_bytes(raw)
    assert refused(sealed).file == name


def test_every_tested_bit_flip_in_a_small_file_is_refused(sealed):
    path = sealed / WEIGHTS
    intact = path.read_bytes()
    for at in range(0, len(intact), 7):
        raw = bytearray(intact)
        raw[at] ^= 0x10
        path.write_bytes(raw)
        refused(sealed)
    path.write_bytes(intact)
    verify_folder(sealed)


def test_zeroed_tail_is_refused(sealed):
    raw = (sealed / WEIGHTS).read_bytes()
    (sealed / WEIGHTS).write_bytes(raw[:-64] + bytes(64))
    assert refused(sealed).kind == Damage.CHECKSUM


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_weights_with_non_finite_values_are_not_sealed(tmp_path, value, dtype):
    weights = np.zeros(100_000, dtype=dtype)
    weights[-1] = value
    folder = write_folder(tmp_path / "v.tmp", {"w": weights})
    with pytest.raises(DamagedWeights) as caught:
        seal_folder(folder, tmp_path / "v", 1, 0, PROBE)
    assert caught.value.kind == Damage.NOT_FINITE
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("bits", "finite"),
    [(0x3F80, True), (0x7F7F, True), (0x7F80, False), (0xFF80, False), (0x7FC1, False)],
)
def test_non_finite_bfloat16_is_detected_by_its_exponent(tmp_path, bits, finite):
    folder = write_folder(tmp_path / "base")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}})
    write_file(folder / WEIGHTS, header, struct.pack("<H", bits))
    if finite:
        assert scan_policy_folder(folder).tensors["w"].dtype == "BF16"
        return
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(folder)
    assert caught.value.kind == Damage.NOT_FINITE


def test_nan_written_after_sealing_is_refused(sealed):
    header, body = header_of(sealed / WEIGHTS)
    begin = header["embed.weight"]["data_offsets"][0]
    raw = (sealed / WEIGHTS).read_bytes()
    at = len(raw) - len(body) + begin
    (sealed / WEIGHTS).write_bytes(raw[:at] + struct.pack("<f", float("nan")) + raw[at + 4 :])
    assert refused(sealed).kind == Damage.NOT_FINITE


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda t: t | {"embed.weight": t["embed.weight"].T.copy()}, Damage.WRONG_SHAPE),
        (lambda t: t | {"embed.weight": t["embed.weight"].astype(np.float16)}, Damage.WRONG_DTYPE),
        (lambda t: {n: v for n, v in t.items() if n != "norm.weight"}, Damage.MISSING_TENSOR),
        (lambda t: t | {"lm_head.weight": np.zeros(3, dtype=np.float32)}, Damage.EXTRA_TENSOR),
    ],
    ids=["shape", "dtype", "missing", "extra"],
)
def test_version_with_other_tensors_than_its_parent_is_refused(sealed, tmp_path, change, kind):
    resealed(tmp_path, change(tensors()))
    assert refused(tmp_path / "other", like=read_manifest(sealed)).kind == kind


def test_tensors_replaced_after_sealing_are_refused(sealed):
    save_file(tensors() | {"norm.weight": np.ones(9, dtype=np.float16)}, sealed / WEIGHTS)
    assert refused(sealed).file == WEIGHTS


def test_folder_that_was_never_renamed_is_refused(sealed):
    unfinished = sealed.with_name("version-4.tmp")
    sealed.rename(unfinished)
    assert refused(unfinished).kind == Damage.HALF_WRITTEN


def test_folder_without_a_manifest_is_refused(unsealed):
    assert refused(unsealed).kind == Damage.HALF_WRITTEN


def test_missing_folder_is_refused(tmp_path):
    assert refused(tmp_path / "nowhere").kind == Damage.HALF_WRITTEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"format": 1, "format": 1}',
        '{"format": NaN}',
        '{"format": 2}',
        "[" * 100_000,
    ],
)
def test_invalid_manifest_is_refused(sealed, text):
    (sealed / "manifest.json").write_text(text)
    assert refused(sealed).kind == Damage.BAD_MANIFEST


def test_manifest_with_a_path_outside_the_folder_is_refused(sealed):
    document = json.loads((sealed / "manifest.json").read_text())
    document["files"]["../secret"] = document["files"]["config.json"]
    (sealed / "manifest.json").write_text(json.dumps(document))
    assert refused(sealed).kind == Damage.BAD_MANIFEST


def test_manifest_with_another_fingerprint_is_refused(sealed):
    document = json.loads((sealed / "manifest.json").read_text())
    intact = document["fingerprint"]
    document["fingerprint"] = "0" * 16
    (sealed / "manifest.json").write_text(json.dumps(document))
    for known in (None, intact):
        assert _refusal(sealed, None, known).kind == Damage.CHECKSUM


def test_intact_weights_with_another_fingerprint_than_requested_are_refused(sealed):
    refusal = _refusal(sealed, None, "0" * 16)
    assert refusal.kind == Damage.CHECKSUM
    assert f"fingerprint {read_manifest(sealed).fingerprint}" in str(refusal)


def test_manifest_with_another_tensor_shape_is_refused(sealed):
    document = json.loads((sealed / "manifest.json").read_text())
    document["tensors"]["norm.weight"]["shape"] = [2, 4]
    (sealed / "manifest.json").write_text(json.dumps(document))
    assert refused(sealed).kind == Damage.WRONG_SHAPE


@pytest.mark.parametrize(
    "name",
    ["modeling.py", "pytorch_model.bin", "optimizer.pt", "weights.pkl", "x.ckpt", "notes.xyz"],
)
def test_code_pickles_and_unknown_files_are_refused(unsealed, name):
    (unsealed / name).write_bytes(b"x")
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert (caught.value.kind, caught.value.file) == (Damage.UNSAFE_FILE, name)


def test_file_added_after_sealing_is_refused(sealed):
    (sealed / "README.md").write_text("hello")
    assert refused(sealed).kind == Damage.UNSAFE_FILE


def test_link_is_refused(unsealed, tmp_path):
    (tmp_path / "elsewhere.json").write_text("{}")
    (unsealed / "vocab.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DamagedWeights, match="no folders or links"):
        scan_policy_folder(unsealed)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "qwen3", "auto_map": {"AutoModel": "x.Y"}},
        {"model_type": "a", "text_config": {"auto_map": {}}},
    ],
    ids=["top", "nested"],
)
def test_auto_map_anywhere_in_the_config_is_refused(unsealed, config):
    (unsealed / "config.json").write_text(json.dumps(config))
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.REMOTE_CODE


@pytest.mark.parametrize(
    "setting",
    [
        {"attn_implementation": "owner/kernel"},
        {"text_config": {"_attn_implementation": "owner/kernel@main"}},
        {"attn_implementation": {"text_config": "owner/kernel"}},
        {"quantization_config": {"quant_method": "gptq"}},
    ],
)
def test_config_that_would_load_foreign_code_is_refused(unsealed, setting):
    (unsealed / "config.json").write_text(json.dumps({"model_type": "qwen3", **setting}))
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.REMOTE_CODE


def test_tokenizer_config_with_auto_map_is_refused(unsealed):
    (unsealed / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": {"AutoTokenizer": ["x.Y", None]}})
    )
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.REMOTE_CODE


@pytest.mark.parametrize(
    "config", ["{", "[]", '{"model_type": 3}', '{"model_type": "a", "x": NaN}', '{"a": 1, "a": 2}']
)
def test_invalid_config_is_refused(unsealed, config):
    (unsealed / "config.json").write_text(config)
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.BAD_CONFIG


def sharded(folder: Path, weight_map: dict[str, str]) -> None:
    """Replace the single file by two shards and an index with this `weight_map`."""
    (folder / WEIGHTS).unlink()
    save_file({"a": np.zeros(2, dtype=np.float32)}, folder / "model-1.safetensors")
    save_file({"b": np.ones(2, dtype=np.float32)}, folder / "model-2.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_sharded_weights_have_the_fingerprint_of_a_single_file(unsealed, tmp_path):
    sharded(unsealed, {"a": "model-1.safetensors", "b": "model-2.safetensors"})
    single = {"b": np.ones(2, dtype=np.float32), "a": np.zeros(2, dtype=np.float32)}
    assert (
        scan_policy_folder(unsealed).fingerprint
        == scan_policy_folder(write_folder(tmp_path / "one", single)).fingerprint
    )


@pytest.mark.parametrize(
    ("weight_map", "kind"),
    [
        ({"a": "../model-1.safetensors", "b": "model-2.safetensors"}, Damage.BAD_INDEX),
        ({"a": "/etc/x.safetensors"}, Damage.BAD_INDEX),
        ({"a": "model-1.bin"}, Damage.BAD_INDEX),
        ({"a": 3}, Damage.BAD_INDEX),
        ({}, Damage.BAD_INDEX),
        ({"a": "model-1.safetensors"}, Damage.UNSAFE_FILE),
        ({"a": "model-1.safetensors", "b": "model-3.safetensors"}, Damage.MISSING_FILE),
        ({"a": "model-2.safetensors", "b": "model-1.safetensors"}, Damage.MISSING_TENSOR),
    ],
    ids=["dots", "absolute", "pickle", "number", "empty", "unmentioned", "absent", "swapped"],
)
def test_wrong_shard_index_is_refused(unsealed, weight_map, kind):
    sharded(unsealed, weight_map)
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == kind


def test_tensor_in_two_shards_is_refused(unsealed):
    sharded(unsealed, {"a": "model-1.safetensors", "b": "model-2.safetensors"})
    both = {"a": np.zeros(2, dtype=np.float32), "b": np.ones(2, dtype=np.float32)}
    save_file(both, unsealed / "model-2.safetensors")
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.DUPLICATE_TENSOR


def entry(**changes) -> dict:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


@pytest.mark.parametrize(
    ("header", "body", "kind"),
    [
        (json.dumps({"w": entry()}), bytes(7), Damage.TRUNCATED),
        (json.dumps({"w": entry()}), bytes(9), Damage.BAD_HEADER),
        (json.dumps({"w": entry(shape=[3])}), bytes(8), Damage.WRONG_SHAPE),
        (json.dumps({"w": entry(shape=[1 << 62, 1 << 62])}), bytes(8), Damage.WRONG_SHAPE),
        (json.dumps({"w": entry(shape=[-2])}), bytes(8), Damage.BAD_HEADER),
        (json.dumps({"w": entry(shape=[True])}), bytes(8), Damage.BAD_HEADER),
        (json.dumps({"w": entry(dtype="OBJECT")}), bytes(8), Damage.WRONG_DTYPE),
        (json.dumps({"w": entry(dtype=["F32"])}), bytes(8), Damage.WRONG_DTYPE),
        (json.dumps({"w": entry(), "v": entry()}), bytes(8), Damage.BAD_HEADER),
        (json.dumps({"w": entry(data_offsets=[8, 16])}), bytes(16), Damage.BAD_HEADER),
        (json.dumps({"w": entry(more=1)}), bytes(8), Damage.BAD_HEADER),
        (
            f'{{"w": {json.dumps(entry())}, "w": {json.dumps(entry())}}}',
            bytes(8),
            Damage.DUPLICATE_TENSOR,
        ),
        ("[]", b"", Damage.BAD_HEADER),
        ("{}", b"", Damage.BAD_HEADER),
        ("{", b"", Damage.BAD_HEADER),
    ],
)
def test_wrong_header_is_refused(unsealed, header, body, kind):
    write_file(unsealed / WEIGHTS, header, body)
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("length", "kind"), [(1 << 63, Damage.BAD_HEADER), (50_000_000, Damage.TRUNCATED)]
)
def test_huge_header_length_is_refused(unsealed, length, kind):
    (unsealed / WEIGHTS).write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == kind


@pytest.mark.parametrize("raw", [b"", b"1234567"])
def test_file_too_short_for_a_header_is_refused(unsealed, raw):
    (unsealed / WEIGHTS).write_bytes(raw)
    with pytest.raises(DamagedWeights) as caught:
        scan_policy_folder(unsealed)
    assert caught.value.kind == Damage.TRUNCATED


@pytest.mark.parametrize(
    "probe",
    [
        Probe((1,), ()),
        Probe((1, 2), (-1.0, -1.0)),
        Probe((1, 2), (float("nan"),)),
        Probe((1, 2), (float("-inf"),)),
    ],
)
def test_invalid_probe_is_not_sealed(tmp_path, probe):
    folder = write_folder(tmp_path / "v.tmp")
    with pytest.raises(ValueError, match="probe"):
        seal_folder(folder, tmp_path / "v", 1, 0, probe)


def test_sealing_the_same_weights_again_keeps_the_first_manifest(sealed):
    again = seal_folder(
        write_folder(sealed.with_name("again.tmp")), sealed, version=3, parent=2, probe=PROBE
    )
    assert again == verify_folder(sealed)


def test_sealing_different_weights_over_a_version_is_refused(sealed):
    other = tensors() | {"norm.weight": np.zeros(8, dtype=np.float16)}
    with pytest.raises(FileExistsError):
        seal_folder(
            write_folder(sealed.with_name("again.tmp"), other),
            sealed,
            version=3,
            parent=2,
            probe=PROBE,
        )
    verify_folder(sealed)


def test_large_file_is_scanned_with_little_memory(tmp_path):
    folder = write_folder(tmp_path / "base", {"w": np.ones(16 << 20, dtype=np.float32)})
    tracemalloc.start()
    scan_policy_folder(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20  # bytes; the file has 64 MiB
