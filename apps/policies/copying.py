"""Copy a run's weight version into a policy of its own, independent of the run's folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from apps.policies.damage import DamagedWeights
from apps.policies.manifest import Manifest, read_manifest, seal_folder, verify_folder


class NotCopied(RuntimeError):
    """The weights could not be made a policy; the message says why."""


def copy_as_base(source: Path, final: Path) -> Manifest:
    """Seal the version in `source` at `final` as a version 0; an existing copy is kept.

    Whole weights are hard-linked, not copied, where the disk allows it: the bytes of a sealed
    folder never change, and a link outlives the folder. An adapter is merged into its base, in a
    worker's process. Raises NotCopied.
    """
    try:
        manifest = read_manifest(source)
        return (
            _link_files(source, final, manifest)
            if manifest.base is None
            else _merge_adapter(source, final)
        )
    except (DamagedWeights, OSError) as error:
        raise NotCopied(f"{source.name}: {error}") from error


def _link_files(source: Path, final: Path, manifest: Manifest) -> Manifest:
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for name in manifest.files:
            _link(source / name, unfinished / name)
        return seal_folder(unfinished, final, version=0, parent=None, probe=manifest.probe)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def _merge_adapter(source: Path, final: Path) -> Manifest:
    if final.exists():
        return verify_folder(final)
    command = [sys.executable, "-m", "workers.policies.adopt", str(source), "--out", str(final)]
    process = subprocess.run(
        command, cwd=settings.BASE_DIR, check=False, capture_output=True, text=True
    )
    if process.returncode:
        raise NotCopied(
            process.stderr.strip().splitlines()[-1]
            if process.stderr.strip()
            else "the adapter could not be merged"
        )
    return read_manifest(final)
