"""Uploaded files of models: sent in pieces, kept until the model is added or given up."""

import fcntl
import os
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.contained_paths import UnsafePath, single_name
from apps.policies.folder import KNOWN_FILES, MANIFEST
from apps.policies.models import ImportOver, PolicyImport
from apps.tasksets.import_files import OF_MODELS

MAX_BYTES = 200 * 1000**3  # of all files of one model
MAX_FILES = 300
PIECE_BYTES = 8 * 1024 * 1024  # the largest piece of one request
HOURS = 24  # unfinished uploads, and files of failed imports, are deleted after so long
WEIGHTS = (".gguf", ".safetensors")


class BadUpload(ValueError):
    """Raised for files that cannot become a model, or a piece that does not fit; says why."""


class WrongOffset(BadUpload):
    """Raised for a piece that does not begin where the file ends; `at` is the right place."""

    def __init__(self, name: str, at: int) -> None:
        super().__init__(f"{name} has {at} bytes here; send the piece that begins there.")
        self.at = at


def require_uploadable(files: Mapping[str, int]) -> None:
    """Raise BadUpload unless a model can be made of files with these names and sizes."""
    if not files:
        raise BadUpload("Choose the model's files.")
    if len(files) > MAX_FILES:
        raise BadUpload(f"A model has at most {MAX_FILES} files.")
    for name, size in files.items():
        _require_name(name)
        if size < 1:
            raise BadUpload(f"{name} is empty.")
    if not any(name.endswith(WEIGHTS) for name in files):
        raise BadUpload("Choose a GGUF file, or safetensors files and their configuration.")
    ggufs = [name for name in files if name.endswith(".gguf")]
    if ggufs and len(files) > 1:
        raise BadUpload("A GGUF file holds everything: upload it alone.")
    if not ggufs and "config.json" not in files:
        raise BadUpload("config.json is missing: the model's configuration.")
    _require_room(sum(files.values()))


def _require_name(name: str) -> None:
    try:
        single_name(name)
    except UnsafePath as error:
        raise BadUpload(f"{error}.") from None
    if name == MANIFEST or not (name in KNOWN_FILES or name.endswith(WEIGHTS)):
        raise BadUpload(f"{name} is not a file of weights, configuration or tokenizer.")


def _require_room(size: int) -> None:
    if size > MAX_BYTES:
        raise BadUpload(f"The files have {size / 1e9:.1f} GB; at most {MAX_BYTES / 1e9:.0f}.")
    settings.IMPORTS_ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.IMPORTS_ROOT).free
    if free < size:
        raise BadUpload(f"The files have {size / 1e9:.1f} GB, the disk has {free / 1e9:.1f} left.")


def received(policy_import: PolicyImport) -> dict[str, int]:
    """Return how many bytes of each file have arrived."""
    return {name: _size(policy_import.upload_folder / name) for name in policy_import.files}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def take_piece(policy_import: PolicyImport, name: str, offset: int, piece: bytes) -> int:
    """Append a piece to a file of the upload; return the bytes that the file has then.

    A piece that has arrived before is taken as sent. Raises BadUpload, WrongOffset, ImportOver,
    OSError.
    """
    if policy_import.state != PolicyImport.State.UPLOADING:
        raise ImportOver(f"it is already {policy_import.get_state_display()}")
    if name not in policy_import.files:
        raise BadUpload(f"{name[:100]!r} is not a file of this upload.")
    policy_import.upload_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = policy_import.upload_folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # the same piece may be sent twice at a time
        at = stream.seek(0, os.SEEK_END)
        if offset + len(piece) <= at:
            return at
        if offset != at:
            raise WrongOffset(name, at)
        if at + len(piece) > policy_import.files[name]:
            raise BadUpload(
                f"{name} would have more than the {policy_import.files[name]} bytes announced."
            )
        stream.write(piece)
    return at + len(piece)


def finish_upload(policy_import: PolicyImport) -> None:
    """Queue the import once all files are complete. Raises BadUpload, ImportOver."""
    sizes = received(policy_import)
    missing = sorted(name for name, size in policy_import.files.items() if sizes[name] != size)
    if missing:
        name = missing[0]
        raise BadUpload(
            f"{name} has {sizes[name]} of {policy_import.files[name]} bytes; send the rest."
        )
    policy_import.uploaded()


def clear_uploads() -> int:
    """Give up uploads that are not complete after a day, and delete files that no import needs."""
    old = Now() - timedelta(hours=HOURS)
    for upload in PolicyImport.objects.filter(
        state=PolicyImport.State.UPLOADING, created_at__lt=old
    ):
        try:
            upload.stop(f"not uploaded within {HOURS} hours")
        except ImportOver:  # just now
            continue
    return _delete_orphans()


def _delete_orphans() -> int:
    """Delete upload folders of imports that are over, and of failed ones after a day."""
    folder = settings.IMPORTS_ROOT / OF_MODELS
    if not folder.is_dir():
        return 0
    # Before the rows are read: a folder made after that belongs to an import not among them.
    folders = list(folder.iterdir())
    recent = Q(state=PolicyImport.State.FAILED, ended_at__gte=Now() - timedelta(hours=HOURS))
    in_use = Q(state__in=(*PolicyImport.OPEN, PolicyImport.State.UPLOADING)) | recent
    needed = {str(pk) for pk in PolicyImport.objects.filter(in_use).values_list("pk", flat=True)}
    orphans = [path for path in folders if path.name not in needed]
    for path in orphans:
        shutil.rmtree(path, ignore_errors=True)
    return len(orphans)
