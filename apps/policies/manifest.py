"""Sealing and verifying a weight version's folder; torch-free, bounded memory.

A trainer writes its files into `<name>.tmp` and calls `seal`, which checks them, writes
`manifest.json` last, makes everything durable and renames. Whoever wants to serve or resume calls
`verify`: whatever does not match its manifest, to the bit, raises `DamagedWeights`.
"""

import base64
import binascii
import itertools
import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.accounts.contained_paths import single_name
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import ADAPTER_CONFIG, MANIFEST, FileEntry, FolderScan, list_safe_files, scan_policy_folder
from apps.policies.tensor_file import TensorSpec

__all__ = ["Damage", "DamagedWeights", "Manifest", "Probe", "Shown", "read_manifest", "scan_policy_folder", "seal", "verify"]

FORMAT = 1
UNFINISHED = ".tmp"
MANIFEST_LIMIT = 64 << 20  # bytes


@dataclass(frozen=True)
class Shown:
    """A picture where a policy sees it: its bytes, and its place in a text, from token `first` up to, not with, token `past`.

    Of the tokens there, those that are the policy's picture token stand for it; others may stand between (row ends).
    """

    png: bytes
    first: int
    past: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.past:
            raise ValueError(f"a picture from token {self.first} to {self.past} is nowhere")


@dataclass(frozen=True)
class Probe:
    """A fixed token sequence and what the trainer's weights say about it.

    `logprobs[i]` is the natural-log probability of `token_ids[i + 1]` given the tokens before it, so
    there is one fewer. An engine that loaded these weights must reproduce them. `pictures`: in the text of a policy that sees.

    `served`: by precision ("bfloat16"), the same logprobs computed in it from the weights rounded
    to it, as an engine does. Empty in manifests older than that, and of base policies.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    pictures: tuple[Shown, ...] = ()
    served: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Manifest:
    """What a sealed folder holds; `parent` is the version it was trained from, None for the base.

    `base` is the fingerprint of the weights that an adapter changes, None for whole weights.
    """

    version: int
    parent: int | None
    files: dict[str, FileEntry]
    tensors: dict[str, TensorSpec]
    fingerprint: str
    probe: Probe
    base: str | None = None

    def to_json(self) -> str:
        """The document as written to `manifest.json`."""
        document = {"format": FORMAT, **asdict(self), "probe": _probe_document(self.probe)}
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_document(cls, document: Any) -> "Manifest":
        """The manifest in a decoded JSON document; raises DamagedWeights when it is none."""
        try:
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']!r}, this program reads {FORMAT}")
            manifest = cls(
                version=_whole(document["version"]),
                parent=None if document["parent"] is None else _whole(document["parent"]),
                files={single_name(name): _file_entry(entry) for name, entry in document["files"].items()},
                tensors={name: _tensor_spec(entry) for name, entry in document["tensors"].items()},
                fingerprint=_text(document["fingerprint"]),
                probe=_probe(document["probe"]),
                base=None if document.get("base") is None else _text(document["base"]),
            )
            if (manifest.base is None) == (ADAPTER_CONFIG in manifest.files):
                raise ValueError("an adapter, and nothing else, names its base")
            return manifest
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedWeights(Damage.BAD_MANIFEST, MANIFEST, f"{type(error).__name__}: {error}") from None


def seal(
    folder_tmp: Path | str,
    final: Path | str,
    version: int,
    parent: int | None,
    probe: Probe,
    base: str | None = None,
    scan: FolderScan | None = None,
) -> Manifest:
    """Check the files, write the manifest, make all durable, rename `folder_tmp` to `final`.

    `base`: for an adapter, the fingerprint of the weights it changes. `scan`: of `folder_tmp`, by a
    caller who has written nothing there since, so that every byte need not be read again.

    Sealing the same bytes again (a step replayed after a crash) keeps the folder that is there.
    Raises DamagedWeights before anything is renamed, FileExistsError when `final` holds other weights.
    """
    folder_tmp, final = Path(folder_tmp), Path(final)
    if final.name.endswith(UNFINISHED):
        raise ValueError(f"{final.name}: a sealed folder cannot end in {UNFINISHED}")
    scan = scan or scan_policy_folder(folder_tmp)
    manifest = Manifest(version, parent, scan.files, scan.tensors, scan.fingerprint, _checked(probe), base)
    if (base is None) == (ADAPTER_CONFIG in manifest.files):
        raise ValueError("an adapter, and nothing else, is sealed with the fingerprint of its base")
    if final.exists():
        return _keep_equal(folder_tmp, final, manifest)
    (folder_tmp / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    for name in [*manifest.files, MANIFEST]:
        sync(folder_tmp / name)
    sync(folder_tmp)
    os.rename(folder_tmp, final)
    sync(final.parent)
    return manifest


def read_manifest(folder: Path | str) -> Manifest:
    """The manifest of a sealed folder, its files unread; raises DamagedWeights when it is not sealed."""
    folder = Path(folder)
    if folder.name.endswith(UNFINISHED):
        raise DamagedWeights(Damage.HALF_WRITTEN, folder.name, "writing never finished")
    try:
        return Manifest.from_document(strict_json.read(folder / MANIFEST, MANIFEST_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedWeights(Damage.HALF_WRITTEN, folder.name, f"there is no {MANIFEST}") from None
    except strict_json.NotStrictJson as error:
        raise DamagedWeights(Damage.BAD_MANIFEST, MANIFEST, str(error)) from None


def verify(folder: Path | str, like: Manifest | None = None) -> Manifest:
    """Read every byte and compare with the manifest and, when given, with the tensors of `like`.

    Returns the manifest; raises DamagedWeights with the first thing that is wrong.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    _require_same_names(manifest, list_safe_files(folder))
    _require_same_sizes(manifest, folder)
    scan = scan_policy_folder(folder)
    require_like(scan.tensors, manifest.tensors)
    _require_same_bytes(manifest, scan)
    if like is not None:
        require_like(manifest.tensors, like.tensors)
    return manifest


def require_like(tensors: dict[str, TensorSpec], like: dict[str, TensorSpec]) -> None:
    """Same names, dtypes and shapes, or DamagedWeights naming the first tensor that differs."""
    for name in sorted(like.keys() - tensors.keys()):
        raise DamagedWeights(Damage.MISSING_TENSOR, name, "the tensor is not there")
    for name in sorted(tensors.keys() - like.keys()):
        raise DamagedWeights(Damage.EXTRA_TENSOR, name, "no such tensor is expected")
    for name, spec in sorted(tensors.items()):
        wanted = like[name]
        if spec.dtype != wanted.dtype:
            raise DamagedWeights(Damage.WRONG_DTYPE, name, f"{spec.dtype}, expected {wanted.dtype}")
        if spec.shape != wanted.shape:
            raise DamagedWeights(Damage.WRONG_SHAPE, name, f"{list(spec.shape)}, expected {list(wanted.shape)}")


def _require_same_names(manifest: Manifest, names: set[str]) -> None:
    for name in sorted(manifest.files.keys() - names):
        raise DamagedWeights(Damage.MISSING_FILE, name, "the manifest lists it")
    for name in sorted(names - manifest.files.keys() - {MANIFEST}):
        raise DamagedWeights(Damage.UNSAFE_FILE, name, "the manifest does not list it")


def _require_same_sizes(manifest: Manifest, folder: Path) -> None:
    """Cheap and before any parsing, so that a cut file is called cut."""
    for name, entry in sorted(manifest.files.items()):
        size = (folder / name).stat().st_size
        if size < entry.bytes:
            raise DamagedWeights(Damage.TRUNCATED, name, f"{size} bytes of {entry.bytes}")
        if size > entry.bytes:
            raise DamagedWeights(Damage.CHECKSUM, name, f"{size} bytes, expected {entry.bytes}")


def _require_same_bytes(manifest: Manifest, scan: FolderScan) -> None:
    for name, entry in sorted(manifest.files.items()):
        if scan.files[name] != entry:
            raise DamagedWeights(Damage.CHECKSUM, name, f"sha256 {scan.files[name].sha256}, expected {entry.sha256}")
    if scan.fingerprint != manifest.fingerprint:
        raise DamagedWeights(Damage.CHECKSUM, MANIFEST, f"fingerprint {scan.fingerprint}, says {manifest.fingerprint}")


def _keep_equal(folder_tmp: Path, final: Path, manifest: Manifest) -> Manifest:
    """`final` was sealed before a crash: keep it when it is the same version of the same weights."""
    existing = verify(final)
    if (existing.version, existing.fingerprint, existing.base) != (manifest.version, manifest.fingerprint, manifest.base):
        raise FileExistsError(f"{final} already holds version {existing.version} ({existing.fingerprint})")
    shutil.rmtree(folder_tmp)
    return existing


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(probe: Probe) -> Probe:
    """The probe in plain Python numbers; raises ValueError when it says nothing or is not finite."""
    tokens = tuple(int(token) for token in probe.token_ids)
    logprobs = tuple(float(logprob) for logprob in probe.logprobs)
    if len(tokens) < 2 or len(logprobs) != len(tokens) - 1:
        raise ValueError(f"a probe of {len(tokens)} tokens needs {len(tokens) - 1} logprobs, has {len(logprobs)}")
    served = {str(name): tuple(map(float, values)) for name, values in probe.served.items()}
    for precision, values in served.items():
        if len(values) != len(logprobs):
            raise ValueError(f"the probe has {len(values)} logprobs in {precision}")
    if not all(map(math.isfinite, itertools.chain(logprobs, *served.values()))):
        raise ValueError("the probe's logprobs are not finite")
    if any(shown.past > len(tokens) for shown in probe.pictures):
        raise ValueError(f"a picture of the probe lies beyond its {len(tokens)} tokens")
    return Probe(tokens, logprobs, tuple(probe.pictures), served)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _file_entry(entry: Any) -> FileEntry:
    return FileEntry(_text(entry["sha256"]), _whole(entry["bytes"]))


def _tensor_spec(entry: Any) -> TensorSpec:
    return TensorSpec(_text(entry["dtype"]), tuple(_whole(size) for size in entry["shape"]))


def _probe(entry: Any) -> Probe:
    pictures = tuple(_shown(picture) for picture in entry.get("pictures", ()))
    tokens = tuple(map(_whole, entry["token_ids"]))
    logprobs = tuple(entry["logprobs"])
    return _checked(Probe(tokens, logprobs, pictures, dict(entry.get("served", {}))))


def _probe_document(probe: Probe) -> dict[str, Any]:
    """Without `pictures` and `served` where there are none, as it was before there were any."""
    told = {"token_ids": probe.token_ids, "logprobs": probe.logprobs}
    pictures = [{"png": base64.b64encode(s.png).decode(), "first": s.first, "past": s.past} for s in probe.pictures]
    told |= {"served": dict(probe.served)} if probe.served else {}
    return told | ({"pictures": pictures} if pictures else {})


def _shown(entry: Any) -> Shown:
    try:
        png = base64.b64decode(_text(entry["png"]), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a picture of the probe is not base64: {error}") from None
    return Shown(png, _whole(entry["first"]), _whole(entry["past"]))
