"""Processing of one import or removal; an import ends within a second when it is stopped.

A model is read by a process of its own, `workers.policies.adopt`: a broken or hostile file can
end that process, and does not end this one.
"""

import shutil
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from apps.accounts.contained_paths import UnsafePath
from apps.policies.damage import DamagedWeights
from apps.policies.manifest import read_manifest
from apps.policies.models import ImportOver, Policy, PolicyImport, PolicyRemoval
from apps.policies.registering import register_policy
from apps.policies.server_models import server_path
from apps.runs.models import WeightVersion
from workers.leases import renewed
from workers.model_imports.adopting import Adoption, NotAdopted

log = structlog.get_logger(__name__)
SAID_EVERY = 1.0  # seconds between two progress updates
NOT_HERE = "the uploaded files are not on this machine: RFTWEB_IMPORTS must name one folder"
Kind = PolicyImport.Kind


def import_next_model(owner: str) -> bool:
    """Add the model of the oldest import that is due; return whether there was one.

    A database outage is raised: the import stays due.
    """
    policy_import = PolicyImport.objects.claim(owner, settings.LEASE_SECONDS)
    if policy_import is None:
        return False
    try:
        _import(policy_import)
    except ImportOver as over:
        log.info("model_import_abandoned", model=policy_import.slug, reason=str(over))
    return True


def _import(policy_import: PolicyImport) -> None:
    folder = policy_import.folder
    _clear(folder)  # of a worker that died
    try:
        policy = _add_model(policy_import, folder)
    except (ImportOver, OperationalError, InterfaceError):
        _clear(folder)
        raise
    except Exception as error:  # the reason is stored, and the next import is processed
        _clear(folder)
        policy_import.fail(_reason(policy_import, error))
    else:
        log.info("model_added", model=policy.slug, parameters=policy.parameters)


def _reason(policy_import: PolicyImport, error: Exception) -> str:
    """Return in one sentence why the model was not added."""
    if isinstance(error, IntegrityError):
        return f"a model {policy_import.slug} already exists; choose another name"
    if isinstance(error, NotAdopted | DamagedWeights | UnsafePath | OSError | ValueError):
        return str(error)
    log.exception("model_import_failed", model=policy_import.slug, exc_info=error)
    return f"{type(error).__name__}: {error}"


def _add_model(policy_import: PolicyImport, folder: Path) -> Policy:
    """Have the model copied, checked and sealed; register it. Raises what `_import` expects."""
    source = _source(policy_import)
    with Adoption(policy_import, source, folder) as adoption, renewed(adoption.tell, SAID_EVERY):
        origin = adoption.wait()
    with transaction.atomic():
        policy = register_policy(
            policy_import.project,
            policy_import.slug,
            folder,
            _named_source(policy_import, origin["source"]),
            policy_import.title,
            policy_import.by,
            licence=origin["licence"],
            sealed=read_manifest(folder),
        )
        policy_import.finish(policy)
    return policy


def _source(policy_import: PolicyImport) -> str:
    """Return what the model is read from. Raises UnsafePath, OSError, NotAdopted."""
    if policy_import.kind == Kind.SERVER:
        return str(server_path(policy_import.source))
    if policy_import.kind != Kind.UPLOAD:
        return policy_import.source
    if not policy_import.upload_folder.is_dir():
        raise NotAdopted(NOT_HERE)
    return str(policy_import.upload_folder)


def _named_source(policy_import: PolicyImport, message: str) -> str:
    """Return the source that the model's page names: never a path of this machine."""
    if policy_import.kind == Kind.UPLOAD:
        return f"uploaded: {policy_import.source}"
    return policy_import.source if policy_import.kind == Kind.SERVER else message


def _clear(folder: Path) -> None:
    """Delete the folder of an import and what unfinished attempts left beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for unfinished in folder.parent.glob(f"{folder.name}.*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_next(owner: str) -> bool:
    """Remove the files of the oldest deleted model that is due; return whether there was one."""
    removal = PolicyRemoval.objects.claim(owner, settings.LEASE_SECONDS)
    if removal is None:
        return False
    folder = Path(removal.folder)
    try:
        if _may_go(folder):
            _remove(folder)
    except OSError as error:
        removal.end(f"its files could not be removed: {error.strerror or error}")
        log.warning("model_files_not_removed", model=removal.slug, error=str(error))
    else:
        removal.end()
        log.info("model_files_removed", model=removal.slug)
    return True


def _may_go(folder: Path) -> bool:
    """Tell whether the folder belongs to this installation, and nothing else refers to it."""
    is_ours = settings.WEIGHTS_ROOT / "policies" in folder.parents
    policies = Policy.objects.filter(folder=str(folder))
    versions = WeightVersion.objects.filter(folder=str(folder))
    return is_ours and not policies.exists() and not versions.exists()


def _remove(folder: Path) -> None:
    """Rename the folder, so that a worker never loads half a model, and delete it."""
    renamed = folder.with_name(f"{folder.name}.deleted")
    if folder.exists():
        shutil.rmtree(renamed, ignore_errors=True)
        folder.rename(renamed)
    if renamed.exists():  # also that of a worker which was killed here
        shutil.rmtree(renamed)
