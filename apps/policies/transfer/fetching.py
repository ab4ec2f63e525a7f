"""Download weights from the publisher into this machine's cache, and resume broken transfers."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from apps.policies.damage import DamagedWeights
from apps.policies.folder import KNOWN_FILES, MANIFEST, FileEntry
from apps.policies.manifest import Manifest
from apps.policies.transfer.cache import PART, Cache, HeldFolder, is_whole, manifest_in
from apps.policies.transfer.publisher import CHUNK, Broken, Publisher
from apps.policies.transfer.weights_request import NotFetched, WeightsRequest

BREAKS_ALLOWED = 6  # consecutive failures without a byte between them
FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 8.0
MAX_WAIT_S = 60.0  # the longest wait that a busy publisher may request
Answer = TypeVar("Answer")
FRESH_STARTS = 2  # downloads from the start of a file whose bytes differ from the manifest


@dataclass
class Progress:
    """The state of a download.

    `require_needed` raises Stopped when the weights are not needed any more. `done` and `total` are
    bytes. `note` says what delays it; empty if nothing does.
    """

    require_needed: Callable[[], None] = lambda: None
    title: str = ""
    done: int = 0
    total: int = 0
    note: str = ""

    def begin(self, title: str, done: int, total: int) -> None:
        self.title = title
        self.done = done
        self.total = total
        self.note = ""

    def wait(self, seconds: float, note: str) -> None:
        """Pause in short steps, so that a stop takes effect soon."""
        self.note = note
        ends = time.monotonic() + seconds
        while (remaining_s := ends - time.monotonic()) > 0:
            self.require_needed()
            time.sleep(min(0.1, remaining_s))

    def wait_for_other(self) -> None:
        """Wait while another process of this machine downloads the same weights."""
        self.note = "another process on this machine is fetching it"
        self.require_needed()


def fetch_folder(
    publisher: Publisher, cache: Cache, request: WeightsRequest, progress: Progress
) -> HeldFolder:
    """Download the folder to this machine and return it, in use until it is released.

    Files that are here already are not requested. The folder gets its name after every file has the
    manifest's sha256. Raises NotFetched, also for a manifest of other weights.
    """
    while (folder := cache.hold(request)) is None:
        progress.begin(request.title, 0, 0)
        document = _retry(progress, lambda: publisher.manifest(request))
        manifest = _check_manifest(request, document)
        needed = request.base if manifest.base is not None else None
        base = fetch_folder(publisher, cache, needed, progress) if needed is not None else None
        try:
            with cache.filling(request, progress.wait_for_other) as is_missing:
                if is_missing:
                    _fill(publisher, cache, request, document, manifest, progress)
        except OSError as error:
            raise NotFetched(f"{request.title} cannot be written here: {error.strerror}") from None
        finally:
            if base is not None:
                base.release()
    return folder


def _check_manifest(request: WeightsRequest, document: bytes) -> Manifest:
    """Return the manifest if it is of the requested weights and names only allowed files."""
    try:
        manifest = manifest_in(document)
    except DamagedWeights as damage:
        raise NotFetched(f"{request.title}: {damage}") from None
    if manifest.fingerprint != request.fingerprint:
        mismatch = f"{manifest.fingerprint}, expected {request.fingerprint}"
        raise NotFetched(f"{request.title}: the publisher has different weights ({mismatch})")
    base = request.base.fingerprint if request.base else None
    if manifest.base not in (None, base):
        raise NotFetched(f"{request.title}: its base is {manifest.base}, expected {base}")
    for name in manifest.files:
        if name == MANIFEST or not (name in KNOWN_FILES or name.endswith(".safetensors")):
            raise NotFetched(f"{request.title}: {name} is not allowed in a policy folder")
    return manifest


def _fill(
    publisher: Publisher,
    cache: Cache,
    request: WeightsRequest,
    document: bytes,
    manifest: Manifest,
    progress: Progress,
) -> None:
    unfinished = cache.begin(request, document, manifest)
    total = sum(entry.bytes for entry in manifest.files.values())
    progress.begin(request.title, 0, total)
    for name, entry in sorted(manifest.files.items()):
        bytes_before = progress.done
        path = unfinished / name
        if not is_whole(path, entry):
            _fetch_file(publisher, request, path, entry, progress)
        progress.done = bytes_before + entry.bytes
    cache.settle(request, manifest)


def _fetch_file(
    publisher: Publisher, request: WeightsRequest, path: Path, entry: FileEntry, progress: Progress
) -> None:
    part = path.with_name(f"{path.name}{PART}")
    bytes_before = progress.done
    for _ in range(FRESH_STARTS + 1):
        digest = _receive(publisher, request, part, path.name, entry, progress)
        if digest == entry.sha256:
            path.unlink(missing_ok=True)
            os.rename(part, path)
            return
        part.unlink()
        progress.done = bytes_before
        progress.note = f"{path.name} does not match the manifest; fetching it again"
    attempts = FRESH_STARTS + 1
    raise NotFetched(f"{path.name} did not match the manifest in {attempts} attempts")


def _receive(
    publisher: Publisher,
    request: WeightsRequest,
    part: Path,
    name: str,
    entry: FileEntry,
    progress: Progress,
) -> str:
    """Complete the partial file; return the sha256 of all of it."""
    digest = hashlib.sha256()
    with part.open("a+b") as file:
        if file.tell() > entry.bytes:
            file.truncate(0)
        file.seek(0)
        while chunk := file.read(CHUNK):
            digest.update(chunk)
        before = progress.done
        progress.done = before + file.tell()

        def take_part() -> None:
            for chunk in publisher.part(request, name, file.tell(), entry.bytes):
                file.write(chunk)
                digest.update(chunk)
                progress.done += len(chunk)
                progress.note = ""
                progress.require_needed()

        while file.tell() < entry.bytes:
            _retry(progress, take_part, lambda: file.tell())
    return digest.hexdigest()


def _retry(
    progress: Progress,
    ask: Callable[[], Answer],
    reached: Callable[[], int] = lambda: 0,
) -> Answer:
    """Request again after each failure, as long as there is progress. Raise NotFetched."""
    breaks = 0
    at = reached()
    while True:
        progress.require_needed()
        try:
            return ask()
        except Broken as broken:
            breaks = breaks + 1 if reached() == at else 1
            at = reached()
            if breaks == BREAKS_ALLOWED:
                raise NotFetched(str(broken)) from None
            pause = min(FIRST_PAUSE_S * 2 ** (breaks - 1), MAX_PAUSE_S)
            asked_for = min(broken.wait_s, MAX_WAIT_S)
            progress.wait(max(pause, asked_for), str(broken))
