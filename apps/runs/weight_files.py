"""Hand weights out to machines of this installation that do not share our folder.

Every request is signed with the installation's secret (apps.policies.transfer.signing). What is
sent is a policy or a published version, by id and fingerprint, and of its folder the manifest and
the files that the manifest names: no name from a request ever becomes a path by itself.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.http import require_safe

from apps.accounts.body_limits import SMALL, takes_body
from apps.accounts.downloads import CHUNK, stream_download
from apps.policies.damage import DamagedWeights
from apps.policies.folder import MANIFEST
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.policies.transfer.ranges import NoSuchPart, Part, parse_range
from apps.policies.transfer.signing import (
    ANSWER_HEADER,
    SCHEME,
    ClockOff,
    NotSigned,
    SignedRequest,
    answer_signature,
    read_ask,
)
from apps.runs.models import WeightVersion

log = structlog.get_logger(__name__)
BYTES = "application/octet-stream"
View = Callable[..., HttpResponseBase]


def require_signature(view: View) -> View:
    """Let in only requests that bear the installation's signature.

    The view is given what was signed, an `SignedRequest`.
    """

    @wraps(view)
    def guarded(request: HttpRequest, **url_arguments: Any) -> HttpResponseBase:
        header = request.headers.get("Authorization", "")
        part = request.headers.get("Range", "")
        secret = settings.WEIGHTS_SECRET
        try:
            ask = read_ask(secret, header, request.path_info, part, time.time())
        except NotSigned:
            return _unknown(
                "not_signed", "Only machines with the installation's secret can read weights."
            )
        except ClockOff as why:
            return _unknown("clock", f"{why}.")
        return view(request, ask, **url_arguments)

    return takes_body(SMALL)(require_safe(guarded))


def _unknown(code: str, detail: str) -> HttpResponse:
    answer = JsonResponse({"code": code, "detail": detail}, status=401)
    answer["WWW-Authenticate"] = SCHEME
    return answer


@require_signature
def door(request: HttpRequest, ask: SignedRequest) -> HttpResponse:
    """Answer a signed request: the secret is right, and this process serves weights."""
    return _small(ask, b"{}\n", "application/json")


@require_signature
def policy_file(
    request: HttpRequest, ask: SignedRequest, pk: int, fingerprint: str, name: str
) -> HttpResponseBase:
    """Answer a signed request with a file of a policy's folder."""
    policy = get_object_or_404(Policy, pk=pk, fingerprint=fingerprint)
    return _file_of(request, ask, Path(policy.folder), name)


@require_signature
def version_file(
    request: HttpRequest, ask: SignedRequest, pk: int, fingerprint: str, name: str
) -> HttpResponseBase:
    """Answer a signed request with a file of a published weight version's folder."""
    published = WeightVersion.objects.filter(state=WeightVersion.State.PUBLISHED)
    version = get_object_or_404(published, pk=pk, fingerprint=fingerprint)
    return _file_of(request, ask, Path(version.folder), name)


urlpatterns = [
    path("", door, name="weight-files"),
    path("policies/<int:pk>/<slug:fingerprint>/<str:name>", policy_file),
    path("versions/<int:pk>/<slug:fingerprint>/<str:name>", version_file),
]


def _file_of(request: HttpRequest, ask: SignedRequest, folder: Path, name: str) -> HttpResponseBase:
    try:
        manifest = read_manifest(folder)
        if name == MANIFEST:
            return _small(ask, (folder / MANIFEST).read_bytes(), "application/json")
        if name not in manifest.files:
            raise Http404("the manifest does not list this file")
        entry = manifest.files[name]
        descriptor = _open_plain(folder / name, entry.bytes)
    except (DamagedWeights, OSError) as damage:
        log.error("weights_not_served", path=ask.path, reason=str(damage))
        return JsonResponse({"code": "damaged", "detail": _without_folder(damage)}, status=410)
    return _file_response(request, ask, descriptor, entry.bytes, entry.sha256)


def _without_folder(damage: Exception) -> str:
    is_ours = isinstance(damage, DamagedWeights)
    return str(damage) if is_ours else f"the file cannot be read ({type(damage).__name__})"


def _open_plain(file: Path, size: int) -> int:
    """Open a plain file of this size, no link. Raises OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        os.close(descriptor)
        raise OSError(f"{file.name} does not match the manifest")
    return descriptor


def _file_response(
    request: HttpRequest, ask: SignedRequest, descriptor: int, size: int, sha256: str
) -> HttpResponseBase:
    """Answer with the file, or the part that is asked for; `descriptor` is closed in any case."""
    try:
        part = parse_range(ask.range, size)
    except NoSuchPart:
        os.close(descriptor)
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    whole = Part(0, size, size)
    pieces = Pieces(descriptor, part or whole)
    answer = stream_download(request, pieces, BYTES, "weights")
    answer.downloaded_by = f"weights of {ask.host}"
    answer["Content-Length"] = str((part or whole).length)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = f'"{sha256}"'
    if part is not None:
        answer.status_code = 206
        answer["Content-Range"] = part.content_range
    return answer


class Pieces(Iterator[bytes]):
    """Part of an open file, piece by piece; the caller must close it."""

    def __init__(self, descriptor: int, part: Part) -> None:
        self._descriptor: int | None = descriptor
        self._at = part.first
        self._end = part.end

    def __next__(self) -> bytes:
        if self._descriptor is None or self._at >= self._end:
            raise StopIteration
        piece = os.pread(self._descriptor, min(CHUNK, self._end - self._at), self._at)
        if not piece:
            raise OSError("the file became shorter while it was sent")
        self._at += len(piece)
        return piece

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def _small(ask: SignedRequest, body: bytes, content_type: str) -> HttpResponse:
    """Return a whole body, signed as the answer to this request."""
    answer = HttpResponse(body, content_type=content_type)
    answer[ANSWER_HEADER] = answer_signature(settings.WEIGHTS_SECRET, ask, body)
    return answer
