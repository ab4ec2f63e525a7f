"""One order filled: how far it is said every second, given up when it is not ours any more."""

import math
import shutil
from pathlib import Path

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError

from apps.accounts.models import AuditEntry
from apps.policies.as_gguf import BYTES_PER_NUMBER
from apps.policies.copying import NotCopied
from apps.policies.manifest import DamagedWeights, read_manifest
from apps.policies.models import Policy
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, OrderOver, WeightOrder
from apps.runs.promoting import branch, folder_of_policy, name_of_policy, promoted
from apps.runs.taking_away import name_of_form, write_form
from apps.tasksets.leasing import MOST_ATTEMPTS
from workers.exporting.destination import Destination, NotPushed, Progress, push
from workers.leases import kept

log = structlog.get_logger(__name__)
SAID_EVERY = 1.0  # seconds
REFUSALS = (
    NotCopied,
    NotPushed,
    DamagedWeights,
    NotPossible,
    ConfigError,
    OSError,
    ValueError,  # NotOpened among them
)
WRITTEN = 0.5  # of a push: the share when its files lie there, and are to be sent


def fill_next(owner: str) -> bool:
    """Fill the oldest order that is due; says whether there was one. A database that goes away is raised: the order stays due."""
    order = WeightOrder.objects.claim(owner, settings.LEASE_SECONDS)
    if order is None:
        return False
    try:
        if order.attempts > MOST_ATTEMPTS:
            order.fail(f"it was begun {MOST_ATTEMPTS} times and never came to its end")
        else:
            _fill(order)
    except OrderOver as over:
        log.info("order_given_up", order=order.pk, reason=str(over))
    return True


def _fill(order: WeightOrder) -> None:
    try:
        with kept(lambda: order.keep(_share(order), settings.LEASE_SECONDS), SAID_EVERY):
            made = MAKE[order.kind](order)
    except (OrderOver, OperationalError, InterfaceError):
        raise
    except IntegrityError:
        order.fail(f"the name {order.wanted.get('slug')!r} is taken; order it under another")
    except REFUSALS as error:
        order.fail(str(error))
    except Exception as error:  # what went wrong is kept with it, and the next order's turn comes
        log.exception("order_failed", order=order.pk)
        order.fail(f"{type(error).__name__}: {error}")
    else:
        order.finish(**made)
        log.info("order_filled", order=order.pk, kind=order.kind, weight_version=order.weight_version.version)


def _promote(order: WeightOrder) -> dict:
    return {"policy": _policy(order, order.wanted["slug"], order.wanted["title"])}


def _branch(order: WeightOrder) -> dict:
    """Whoever takes up an order whose run was made already finds it."""
    policy = _policy(order)
    made = order.weight_version.branches.filter(slug=order.wanted["slug"]).first()
    return {"policy": policy, "run": made or branch(order.weight_version, policy, order.by, order.wanted)}


def _policy(order: WeightOrder, slug: str = "", title: str = "") -> Policy:
    version = order.weight_version
    policy = promoted(version, order.by, slug, title)
    AuditEntry.record("weight version made a policy", version.address, order.by, version.run.project, policy=policy.slug)
    return policy


def _export(order: WeightOrder) -> dict:
    folder = folder_of_export(order)
    try:
        return {"bytes": _written(order, folder), "folder": str(folder)}
    except BaseException:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise


def _push(order: WeightOrder) -> dict:
    """Write the form, send it, and leave nothing behind. Raises NotPushed."""
    if not (token := order.token()):
        raise NotPushed("token: none was typed, and RFTWEB_HUB_TOKEN is not set for this worker")
    folder, version = folder_of_export(order), order.weight_version
    repository, is_public = order.wanted["repository"], order.wanted["is_public"]
    try:
        size = _written(order, folder)
        order.sending = Progress(size)
        to = Destination(repository, token, not is_public, settings.HUB_ENDPOINT)
        address = push(folder, to, f"{version.address}, {order.form}", order.sending)
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    said = {"repository": repository, "form": order.form, "commit": address, "is_public": is_public}
    project = version.run.project
    AuditEntry.record("weight version pushed", version.address, order.by, project, **said)
    return {"bytes": size, "address": address}


def _written(order: WeightOrder, folder: Path) -> int:
    shutil.rmtree(folder.parent, ignore_errors=True)  # of an attempt that ended before it said so
    folder.parent.mkdir(parents=True, exist_ok=True)
    return write_form(order.weight_version, order.form, folder)


def folder_of_export(order: WeightOrder) -> Path:
    name = name_of_form(order.weight_version, order.form)
    return settings.WEIGHTS_ROOT / "exports" / str(order.pk) / name


MAKE = {
    WeightOrder.Kind.PROMOTE: _promote,
    WeightOrder.Kind.BRANCH: _branch,
    WeightOrder.Kind.EXPORT: _export,
    WeightOrder.Kind.PUSH: _push,
}


def _share(order: WeightOrder) -> float:
    """How far it is: of the bytes to write, those that lie there; of a push then those sent."""
    if order.kind != WeightOrder.Kind.PUSH:
        return min(0.99, _share_written(order))
    if sending := getattr(order, "sending", None):
        return min(0.99, WRITTEN + (1 - WRITTEN) * sending.share)
    return WRITTEN * min(1.0, _share_written(order))


def _share_written(order: WeightOrder) -> float:
    """Of the bytes that it writes, those there already, under a name of their own until all are."""
    written = sum(path.stat().st_size for path in _place(order).glob("*") if path.is_file())
    return written / max(_expected(order), 1)


def _expected(order: WeightOrder) -> float:
    """About how many bytes it writes: what the whole weights have, or a GGUF file of them."""
    version = order.weight_version
    base = version.run.weight_versions.filter(version=0).first()
    if base and order.form in BYTES_PER_NUMBER:
        tensors = read_manifest(base.folder).tensors.values()
        return sum(math.prod(one.shape) for one in tensors) * BYTES_PER_NUMBER[order.form]
    return max(base.bytes if base else 0, version.bytes)


def _place(order: WeightOrder) -> Path:
    """The folder that is being written, or was: of a branch that of the policy which its run will begin with."""
    if order.kind in WeightOrder.TAKES_AWAY:
        place = folder_of_export(order)
    else:
        named = order.wanted["slug"] if order.kind == WeightOrder.Kind.PROMOTE else name_of_policy(order.weight_version)
        place = folder_of_policy(order.weight_version.run, named)
    # Its name may have been taken (…-2), and goes on (.PID.tmp) until all is there.
    unfinished = [path for end in (".*", "-[0-9]*.*") for path in place.parent.glob(f"{place.name}{end}")]
    return max(unfinished, key=lambda path: path.stat().st_mtime, default=place)
