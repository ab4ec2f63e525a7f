"""Sealing and verifying the folder of a weight version, without torch and in bounded memory.

A trainer writes its files into `<name>.tmp` and calls `seal_folder`, which checks them, writes
`manifest.json` last, makes everything durable and renames the folder. Code that serves or resumes a
version calls `verify_folder`, which raises `DamagedWeights` if any bit differs from the manifest.
"""

import base64
import binascii
import itertools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.accounts.contained_paths import single_name
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import (
    ADAPTER_CONFIG,
    MANIFEST,
    FileEntry,
    FolderScan,
    checksum,
    list_safe_files,
    scan_policy_folder,
    tensor_specs,
)
from apps.policies.tensor_file import TensorSpec

__all__ = [
    "Damage",
    "DamagedWeights",
    "Manifest",
    "Probe",
    "ShownPicture",
    "read_manifest",
    "scan_policy_folder",
    "seal_folder",
    "verify_folder",
]

FORMAT = 1
UNFINISHED = ".tmp"
MANIFEST_LIMIT = 64 << 20  # bytes
SYNCED_AT_ONCE = 16


@dataclass(frozen=True)
class ShownPicture:
    """A picture in a policy's input: its bytes, and its tokens `first` to `past` (exclusive).

    The picture tokens among them stand for the picture; other tokens, such as row ends, may be
    between them.
    """

    png: bytes
    first: int
    past: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.past:
            raise ValueError(f"a picture from token {self.first} to {self.past} is nowhere")


@dataclass(frozen=True)
class Probe:
    """A fixed token sequence and the log-probabilities that the trainer's weights give it.

    `logprobs[i]` is the natural-log probability of `token_ids[i + 1]` given the tokens before it,
    so there is one fewer. An engine that loaded these weights must reproduce them. `pictures` are
    those in the text, for a policy with vision.

    `served` holds, by precision ("bfloat16"), the same logprobs computed in it from the weights
    rounded to it, as an engine does. It is empty in older manifests and for base policies.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    pictures: tuple[ShownPicture, ...] = ()
    served: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Manifest:
    """The contents of a sealed folder.

    `parent` is the version it was trained from, None for the base. `base` is the fingerprint of the
    weights that an adapter changes, None for whole weights.
    """

    version: int
    parent: int | None
    files: dict[str, FileEntry]
    tensors: dict[str, TensorSpec]
    fingerprint: str
    probe: Probe
    base: str | None = None

    def to_json(self) -> str:
        """Return the document as written to `manifest.json`."""
        document = {"format": FORMAT, **asdict(self), "probe": _probe_document(self.probe)}
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_document(cls, document: Any) -> "Manifest":
        """Return the manifest of a decoded JSON document; raise DamagedWeights if it is none."""
        try:
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']!r}, this program reads {FORMAT}")
            manifest = cls(
                version=_require_whole(document["version"]),
                parent=None if document["parent"] is None else _require_whole(document["parent"]),
                files={
                    single_name(name): _file_entry(entry)
                    for name, entry in document["files"].items()
                },
                tensors={name: _tensor_spec(entry) for name, entry in document["tensors"].items()},
                fingerprint=_text(document["fingerprint"]),
                probe=_probe(document["probe"]),
                base=None if document.get("base") is None else _text(document["base"]),
            )
            if (manifest.base is None) == (ADAPTER_CONFIG in manifest.files):
                raise ValueError("only an adapter has a base")
            return manifest
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedWeights(
                Damage.BAD_MANIFEST, MANIFEST, f"{type(error).__name__}: {error}"
            ) from None


def seal_folder(
    folder_tmp: Path | str,
    final: Path | str,
    version: int,
    parent: int | None,
    probe: Probe,
    base: str | None = None,
    scan: FolderScan | None = None,
) -> Manifest:
    """Check the files, write the manifest, make all durable, rename `folder_tmp` to `final`.

    `base`: for an adapter, the fingerprint of the weights it changes. `scan`: the scan of
    `folder_tmp` by a caller who has written nothing there since, so that the bytes need not be read
    again.

    Sealing the same bytes again (a step repeated after a crash) keeps the existing folder. Raises
    DamagedWeights before anything is renamed, FileExistsError if `final` holds other weights.
    """
    folder_tmp = Path(folder_tmp)
    final = Path(final)
    if final.name.endswith(UNFINISHED):
        raise ValueError(f"{final.name}: a sealed folder cannot end in {UNFINISHED}")
    scan = scan or scan_policy_folder(folder_tmp)
    manifest = Manifest(
        version, parent, scan.files, scan.tensors, scan.fingerprint, _require_finite(probe), base
    )
    if (base is None) == (ADAPTER_CONFIG in manifest.files):
        raise ValueError("only an adapter is sealed with the fingerprint of its base")
    if final.exists():
        return _keep_equal(folder_tmp, final, manifest)
    (folder_tmp / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    sync_all([folder_tmp / name for name in [*manifest.files, MANIFEST]])
    sync(folder_tmp)
    os.rename(folder_tmp, final)
    sync(final.parent)
    return manifest


def read_manifest(folder: Path | str) -> Manifest:
    """Return the manifest of a folder without reading its files.

    Raises DamagedWeights if the folder is not sealed.
    """
    folder = Path(folder)
    if folder.name.endswith(UNFINISHED):
        raise DamagedWeights(Damage.HALF_WRITTEN, folder.name, "writing did not finish")
    try:
        return Manifest.from_document(strict_json.read_json_file(folder / MANIFEST, MANIFEST_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedWeights(Damage.HALF_WRITTEN, folder.name, f"{MANIFEST} is missing") from None
    except strict_json.NotStrictJson as error:
        raise DamagedWeights(Damage.BAD_MANIFEST, MANIFEST, str(error)) from None


def verify_folder(
    folder: Path | str, like: Manifest | None = None, fingerprint: str | None = None
) -> Manifest:
    """Compare every byte with the manifest and, if given, the tensors with those of `like`.

    Returns the manifest; raises DamagedWeights with the first difference. A caller who knows the
    `fingerprint` that the weights must have spares the checksum of every tensor: one of each file
    shows that the bytes are those that were sealed, all finite, under that fingerprint.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    _require_same_names(manifest, list_safe_files(folder))
    _require_same_sizes(manifest, folder)
    if fingerprint is None or not _is_as_sealed(manifest, folder, fingerprint):
        scan = scan_policy_folder(folder)
        require_like(scan.tensors, manifest.tensors)
        _require_same_bytes(manifest, scan)
        if fingerprint is not None:
            _require_fingerprint(manifest, fingerprint)
    if like is not None:
        require_like(manifest.tensors, like.tensors)
    return manifest


def _is_as_sealed(manifest: Manifest, folder: Path, fingerprint: str) -> bool:
    """Tell whether files, tensors and fingerprint are those of the manifest.

    What is wrong otherwise is for a scan to find.
    """
    return (
        manifest.fingerprint == fingerprint
        and all(checksum(folder / name) == entry for name, entry in manifest.files.items())
        and tensor_specs(folder) == manifest.tensors
    )


def _require_fingerprint(manifest: Manifest, fingerprint: str) -> None:
    if manifest.fingerprint != fingerprint:
        detail = f"fingerprint {manifest.fingerprint}, but the version has {fingerprint}"
        raise DamagedWeights(Damage.CHECKSUM, MANIFEST, detail)


def require_like(tensors: dict[str, TensorSpec], like: dict[str, TensorSpec]) -> None:
    """Require equal names, dtypes and shapes.

    Raises DamagedWeights naming the first tensor that differs.
    """
    for name in sorted(like.keys() - tensors.keys()):
        raise DamagedWeights(Damage.MISSING_TENSOR, name, "the tensor is missing")
    for name in sorted(tensors.keys() - like.keys()):
        raise DamagedWeights(Damage.EXTRA_TENSOR, name, "this tensor is not expected")
    for name, spec in sorted(tensors.items()):
        expected = like[name]
        if spec.dtype != expected.dtype:
            raise DamagedWeights(
                Damage.WRONG_DTYPE, name, f"{spec.dtype}, expected {expected.dtype}"
            )
        if spec.shape != expected.shape:
            raise DamagedWeights(
                Damage.WRONG_SHAPE, name, f"{list(spec.shape)}, expected {list(expected.shape)}"
            )


def _require_same_names(manifest: Manifest, names: set[str]) -> None:
    for name in sorted(manifest.files.keys() - names):
        raise DamagedWeights(Damage.MISSING_FILE, name, "listed in the manifest, but missing")
    for name in sorted(names - manifest.files.keys() - {MANIFEST}):
        raise DamagedWeights(Damage.UNSAFE_FILE, name, "not listed in the manifest")


def _require_same_sizes(manifest: Manifest, folder: Path) -> None:
    """Compare file sizes before parsing: cheap, and reports truncation as such."""
    for name, entry in sorted(manifest.files.items()):
        size = (folder / name).stat().st_size
        if size < entry.bytes:
            raise DamagedWeights(Damage.TRUNCATED, name, f"{size} bytes of {entry.bytes}")
        if size > entry.bytes:
            raise DamagedWeights(Damage.CHECKSUM, name, f"{size} bytes, expected {entry.bytes}")


def _require_same_bytes(manifest: Manifest, scan: FolderScan) -> None:
    for name, entry in sorted(manifest.files.items()):
        if scan.files[name] != entry:
            raise DamagedWeights(
                Damage.CHECKSUM, name, f"sha256 {scan.files[name].sha256}, expected {entry.sha256}"
            )
    if scan.fingerprint != manifest.fingerprint:
        raise DamagedWeights(
            Damage.CHECKSUM,
            MANIFEST,
            f"fingerprint {scan.fingerprint}, but the manifest says {manifest.fingerprint}",
        )


def _keep_equal(folder_tmp: Path, final: Path, manifest: Manifest) -> Manifest:
    """Keep a `final` that was sealed before a crash if it is the same version and weights."""
    existing = verify_folder(final)
    if (existing.version, existing.fingerprint, existing.base) != (
        manifest.version,
        manifest.fingerprint,
        manifest.base,
    ):
        raise FileExistsError(
            f"{final} already holds version {existing.version} ({existing.fingerprint})"
        )
    shutil.rmtree(folder_tmp)
    return existing


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's entries, survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Sequence[Path]) -> None:
    """Make these files survive a power failure, all at once.

    A file system writes its journal once for files that are synced together: seven files take about
    a sixth of the time that they take one after the other (ext4).
    """
    with ThreadPoolExecutor(max(1, min(len(paths), SYNCED_AT_ONCE))) as pool:
        for _ in pool.map(sync, paths):
            pass


def _require_finite(probe: Probe) -> Probe:
    """Return the probe in plain Python numbers; raise ValueError if it is empty or not finite."""
    tokens = tuple(int(token) for token in probe.token_ids)
    logprobs = tuple(float(logprob) for logprob in probe.logprobs)
    if len(tokens) < 2 or len(logprobs) != len(tokens) - 1:
        raise ValueError(
            f"a probe of {len(tokens)} tokens needs {len(tokens) - 1} logprobs, has {len(logprobs)}"
        )
    served = {str(name): tuple(map(float, values)) for name, values in probe.served.items()}
    for precision, values in served.items():
        if len(values) != len(logprobs):
            raise ValueError(f"the probe has {len(values)} logprobs in {precision}")
    if not all(map(math.isfinite, itertools.chain(logprobs, *served.values()))):
        raise ValueError("the probe's logprobs are not finite")
    if any(picture.past > len(tokens) for picture in probe.pictures):
        raise ValueError(f"a picture of the probe lies beyond its {len(tokens)} tokens")
    return Probe(tokens, logprobs, tuple(probe.pictures), served)


def _require_whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _file_entry(entry: Any) -> FileEntry:
    return FileEntry(_text(entry["sha256"]), _require_whole(entry["bytes"]))


def _tensor_spec(entry: Any) -> TensorSpec:
    return TensorSpec(_text(entry["dtype"]), tuple(_require_whole(size) for size in entry["shape"]))


def _probe(entry: Any) -> Probe:
    pictures = tuple(_read_picture(picture) for picture in entry.get("pictures", ()))
    tokens = tuple(map(_require_whole, entry["token_ids"]))
    logprobs = tuple(entry["logprobs"])
    return _require_finite(Probe(tokens, logprobs, pictures, dict(entry.get("served", {}))))


def _probe_document(probe: Probe) -> dict[str, Any]:
    """Return the probe as JSON; empty `pictures` and `served` are left out, as in old ones."""
    document: dict[str, Any] = {"token_ids": probe.token_ids, "logprobs": probe.logprobs}
    pictures = [
        {"png": base64.b64encode(s.png).decode(), "first": s.first, "past": s.past}
        for s in probe.pictures
    ]
    document |= {"served": dict(probe.served)} if probe.served else {}
    return document | ({"pictures": pictures} if pictures else {})


def _read_picture(entry: Any) -> ShownPicture:
    try:
        png = base64.b64decode(_text(entry["png"]), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a picture of the probe is not base64: {error}") from None
    return ShownPicture(png, _require_whole(entry["first"]), _require_whole(entry["past"]))
