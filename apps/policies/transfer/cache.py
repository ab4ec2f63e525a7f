"""A bounded cache of downloaded weights, shared by the processes of one machine.

    KEY/          a sealed folder, complete; files that several folders share are hard links
    KEY.tmp/      one that is being fetched: its manifest, whole files, and NAME.part
    KEY.base      of an adapter: a link to the folder of its base
    KEY.lock      held alone by who fetches or deletes the folder, shared by who uses it
    room.lock     held by who makes room

A folder's modification time is the time of its last use.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.accounts import strict_json
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import MANIFEST, FileEntry
from apps.policies.manifest import UNFINISHED, Manifest, read_manifest, sync, sync_all
from apps.policies.transfer.weights_request import NotFetched, WeightsRequest

BASE = ".base"
LOCK = ".lock"
PART = ".part"
LOOK_S = 0.1  # between two attempts at a lock that another process holds
MB = 10**6


@dataclass
class HeldFolder:
    """A complete folder in use: it is not deleted until `release`."""

    folder: Path
    _locks: list[int]

    def release(self) -> None:
        while self._locks:
            os.close(self._locks.pop())


@dataclass(frozen=True)
class Cache:
    """The cache folder; `limit` bounds the bytes of all folders, each shared file counted once."""

    root: Path
    limit: int

    def folder(self, request: WeightsRequest) -> Path:
        return self.root / request.key

    def unfinished(self, request: WeightsRequest) -> Path:
        return self.root / f"{request.key}{UNFINISHED}"

    def hold(self, request: WeightsRequest) -> HeldFolder | None:
        """Return the folder, kept from deletion, if it and its base are here; None otherwise."""
        folder = self.folder(request)
        locks: list[int] = []
        if Path(f"{folder}{BASE}").is_symlink():
            base = self.hold(request.base) if request.base else None
            if base is None:
                return None
            locks = base._locks
        if folder.is_dir():
            locks.append(_shared(self._lock_file(request.key)))
            if folder.is_dir():
                _touch(folder)
                return HeldFolder(folder, locks)
        HeldFolder(folder, locks).release()
        return None

    @contextlib.contextmanager
    def filling(self, request: WeightsRequest, wait: Callable[[], None]) -> Iterator[bool]:
        """Take the lock for downloading a folder; yield False once another process has it complete.

        `wait` is called while another process downloads; an exception it raises ends the waiting.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = self._lock_file(request.key)
        while (descriptor := _try_exclusive(lock)) is None:
            if self.folder(request).is_dir():  # in use: no process can get the exclusive lock
                yield False
                return
            wait()
            time.sleep(LOOK_S)
        try:
            yield not self.folder(request).is_dir()
        finally:
            os.close(descriptor)

    def begin(self, request: WeightsRequest, document: bytes, manifest: Manifest) -> Path:
        """Make room and create the unfinished folder. Raise NotFetched if there is no room."""
        unfinished = self.unfinished(request)
        unfinished.mkdir(exist_ok=True, mode=0o750)
        _keep_only(unfinished, manifest)
        (unfinished / MANIFEST).write_bytes(document)
        self._link_known(request, manifest)
        try:
            with _room_lock(self.root):
                self._make_room(request)
        except NotFetched:
            shutil.rmtree(unfinished)
            raise
        return unfinished

    def settle(self, request: WeightsRequest, manifest: Manifest) -> None:
        """Rename the complete folder to its final name, durably."""
        unfinished = self.unfinished(request)
        final = self.folder(request)
        sync_all([unfinished / name for name in [*manifest.files, MANIFEST]])
        sync(unfinished)
        if manifest.base and request.base:
            _point(Path(f"{final}{BASE}"), request.base.key)
        os.rename(unfinished, final)
        _touch(final)
        sync(self.root)

    def discard(self, request: WeightsRequest) -> None:
        """Delete a damaged folder, even while it is in use."""
        self._delete(request.key)

    # -- room

    def used(self) -> int:
        """Return the bytes of all folders; those being downloaded count in full."""
        return _bytes_of(self._folders())

    def _make_room(self, request: WeightsRequest) -> None:
        """Delete the least recently used folders that are not in use, until the new one fits."""
        ours = {request.key, request.base.key if request.base else ""}
        deletable = [path for path in self._folders() if _key_of(path) not in ours]
        for path in sorted(deletable, key=lambda path: path.stat().st_mtime):
            if self.used() <= self.limit:
                return
            self._delete_unused(_key_of(path))
        if (used := self.used()) > self.limit:
            raise NotFetched(
                f"not enough space: {used / MB:.1f} MB would be in use, but "
                f"RFTWEB_WEIGHTS_CACHE_MB allows {self.limit / MB:.1f}"
            )

    def _delete_unused(self, key: str) -> None:
        descriptor = _try_exclusive(self._lock_file(key))
        if descriptor is None:
            return
        self._delete(key)
        self._lock_file(key).unlink(missing_ok=True)
        os.close(descriptor)

    def _delete(self, key: str) -> None:
        """Delete a folder; it is renamed first, so that no process finds half of it."""
        for name in (key, f"{key}{UNFINISHED}"):
            if (folder := self.root / name).is_dir():
                doomed = self.root / f"{name}-{os.getpid()}-{time.monotonic_ns()}.gone"
                os.rename(folder, doomed)
                shutil.rmtree(doomed, ignore_errors=True)
        (self.root / f"{key}{BASE}").unlink(missing_ok=True)

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return [path for path in self.root.iterdir() if path.is_dir() and not path.is_symlink()]

    def _lock_file(self, key: str) -> Path:
        return self.root / f"{key}{LOCK}"

    # -- files that exist already

    def _link_known(self, request: WeightsRequest, manifest: Manifest) -> None:
        """Link files of other folders with the same sha256 into the unfinished folder.

        Their bytes are read again first.
        """
        unfinished = self.unfinished(request)
        sources = self._known_files()
        for name, entry in manifest.files.items():
            source = sources.get(entry)
            target = unfinished / name
            if source is None or target.exists() or not is_whole(source, entry):
                continue
            with contextlib.suppress(OSError):  # it was deleted meanwhile: then it is downloaded
                os.link(source, target)

    def _known_files(self) -> dict[FileEntry, Path]:
        files_by_entry: dict[FileEntry, Path] = {}
        for folder in self._folders():
            with contextlib.suppress(DamagedWeights, OSError):  # unfinished: no manifest
                files = read_manifest(folder).files
                files_by_entry |= {entry: folder / name for name, entry in files.items()}
        return files_by_entry


def manifest_in(document: bytes) -> Manifest:
    """Parse a manifest's bytes. Raise DamagedWeights."""
    try:
        return Manifest.from_document(strict_json.decode_json(document, any_text=True))
    except strict_json.NotStrictJson as error:
        raise DamagedWeights(Damage.BAD_MANIFEST, MANIFEST, str(error)) from None


def is_whole(path: Path, entry: FileEntry) -> bool:
    """Tell whether the file has the bytes that the manifest names."""
    try:
        if path.stat().st_size != entry.bytes:
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def _keep_only(unfinished: Path, manifest: Manifest) -> None:
    """Delete files of an earlier attempt that the manifest does not name."""
    kept_names = {*manifest.files, *(f"{name}{PART}" for name in manifest.files)}
    for path in unfinished.iterdir():
        if path.name not in kept_names:
            path.unlink()


def _bytes_of(folders: list[Path]) -> int:
    """Return the bytes of the folders.

    Each file counts once, however many folders link it; unfinished folders count as their manifests
    say.
    """
    sizes: dict[int, int] = {}
    missing = 0
    for folder in folders:
        with contextlib.suppress(OSError):  # it was deleted meanwhile
            whole = [path for path in folder.iterdir() if path.suffix != PART]
            for path in whole:
                status = path.stat()
                sizes[status.st_ino] = status.st_size
            if folder.name.endswith(UNFINISHED):
                missing += _missing(folder, {path.name for path in whole})
    return sum(sizes.values()) + missing


def _missing(unfinished: Path, names: set[str]) -> int:
    try:
        manifest = manifest_in((unfinished / MANIFEST).read_bytes())
    except (DamagedWeights, OSError):
        return 0
    return sum(entry.bytes for name, entry in manifest.files.items() if name not in names)


def _touch(folder: Path) -> None:
    """Set the folder's time of use to now; the kernel's own clock for this is only 4 ms precise."""
    now = time.time_ns()
    os.utime(folder, ns=(now, now))


def _key_of(path: Path) -> str:
    return path.name.removesuffix(UNFINISHED)


def _point(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _shared(lock: Path) -> int:
    return _open_and_lock(lock, fcntl.LOCK_SH) or 0


def _try_exclusive(lock: Path) -> int | None:
    """Take the exclusive lock and return its descriptor; None while another process holds it."""
    return _open_and_lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_and_lock(lock: Path, how: int) -> int | None:
    """Lock the file of this name; a file that was deleted while waiting for it does not count."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, how)
            if lock.exists() and os.fstat(descriptor).st_ino == lock.stat().st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def _room_lock(root: Path) -> Iterator[None]:
    descriptor = _open_and_lock(root / f"room{LOCK}", fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
