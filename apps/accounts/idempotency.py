"""Idempotent writes: a write with an `Idempotency-Key` runs once, however often it arrives.

The same key with the same body gets the first answer again; with another body it is refused (422);
while the first request is running, the answer is 409 of the kind `at_work`, with the time to retry.
A key is kept for a day; the key of a refused request can be used again at once. The rows' own
unique constraints apply in any case, also to requests without a key.
"""

import hashlib
import json
import secrets
from collections.abc import Callable
from datetime import timedelta
from functools import wraps

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Membership, OnceRequest, Token
from apps.accounts.problems import AtWork

JSON = dict | list | str | int | float | bool | None
HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 255
KEPT = timedelta(days=1)
AT_WORK = timedelta(
    seconds=70
)  # longer than any statement may run: a request that takes longer has died
SWEEP_EVERY = 200
MAX_SWEPT = 2_000  # one request in SWEEP_EVERY deletes up to so many old keys
PARAMETER = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description=(
        "Identifies this request. Repeating it with the same key and body has no further effect."
    ),
)


def once(handler: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a view's method so that its answer is stored and repeated."""
    return _idempotent(handler, is_kept=True)


def once_anew(handler: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a method that is idempotent by itself and may answer later.

    It is called again for a repeated request. It stores what it must remember of the first call
    with `store_for_repetition` and reads it with `read_stored_answer`.
    """
    return _idempotent(handler, is_kept=False)


def _idempotent(handler: Callable[..., Response], is_kept: bool) -> Callable[..., Response]:
    @wraps(handler)
    def answer_once(view: object, request: Request, *args: object, **kwargs: object) -> Response:
        key = _key_of(request)
        if key is None:
            return handler(view, request, *args, **kwargs)
        row, is_ours = _claim(request, key, _digest_of(view, request, is_kept))
        if not is_ours:
            return (
                Response(row.answer, row.status)
                if is_kept
                else handler(view, request, *args, **kwargs)
            )
        try:
            answer = handler(view, request, *args, **kwargs)
        except Exception:
            OnceRequest.objects.filter(pk=row.pk, begun_at=row.begun_at).delete()
            raise
        stored = {"answer": answer.data} if is_kept else {}
        OnceRequest.objects.filter(pk=row.pk, begun_at=row.begun_at).update(
            status=answer.status_code, **stored
        )
        return answer

    return answer_once


def _key_of(request: Request) -> str | None:
    key = request.headers.get(HEADER)
    if key is not None and not (
        0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()
    ):
        raise serializers.ValidationError(
            {HEADER: [f"Must be 1 to {MAX_KEY_LENGTH} printable ASCII characters."]}
        )
    return key


def forget_request_key(request: Request) -> None:
    """Forget the request's key, so that the next request with it runs again."""
    _rows(request).delete()


def store_for_repetition(request: Request, value: JSON) -> None:
    """Store a value for repetitions of this request, in the transaction of its work.

    Does nothing without a key.
    """
    if _key_of(request) is not None:
        _rows(request).update(answer=value)


def read_stored_answer(request: Request) -> JSON:
    """Return what the same request stored with `store_for_repetition` earlier, or None."""
    return (
        None
        if _key_of(request) is None
        else _rows(request).values_list("answer", flat=True).first()
    )


def _rows(request: Request) -> QuerySet[OnceRequest]:
    return OnceRequest.objects.filter(user_id=_sender_id(request), key=_key_of(request))


def _sender_id(request: Request) -> int:
    """Return the id of the user: a permission has let them in before the view's method runs."""
    assert request.user.pk is not None
    return request.user.pk


def _claim(request: Request, key: str, digest: str) -> tuple[OnceRequest, bool]:
    """Return the key's row, and whether this request must do the work.

    Raises ValidationError, AtWork.
    """
    now = timezone.now()
    _sweep(request, key)
    row, is_new = OnceRequest.objects.get_or_create(
        user_id=_sender_id(request), key=key, defaults={"digest": digest, "begun_at": now}
    )
    if is_new:
        return row, True
    if row.digest != digest:
        raise serializers.ValidationError(
            {
                HEADER: [
                    ("Already used for another request, or with other permissions. Use a new key.")
                ]
            }
        )
    if row.status is not None:
        return row, False
    late = OnceRequest.objects.filter(
        pk=row.pk, status=None, begun_at=row.begun_at, begun_at__lt=now - AT_WORK
    )
    if not late.update(begun_at=now):
        raise AtWork(
            "The request with this Idempotency-Key is still in progress. Try again in a second."
        )
    row.begun_at = now
    return row, True


def _sweep(request: Request, key: str) -> None:
    """Delete this key if it is older than a day; now and then delete other old keys too."""
    old = OnceRequest.objects.filter(begun_at__lt=timezone.now() - KEPT)
    old.filter(user_id=_sender_id(request), key=key).delete()
    if secrets.randbelow(SWEEP_EVERY) == 0:
        OnceRequest.objects.filter(pk__in=old.values("pk")[:MAX_SWEPT]).delete()


def _digest_of(view: object, request: Request, is_kept: bool) -> str:
    """Return a digest of everything that distinguishes the request from another one.

    A view whose callers differ in more than the body returns the difference from `once_scope`. If
    the first answer is repeated without calling the view, the permissions of the sender are
    included: a narrower token, or a person who lost a role, must not read the answer to a wider
    one.
    """
    scope = view.once_scope(request) if hasattr(view, "once_scope") else []
    rights = _rights_of(request) if is_kept else []
    content = [request.method, request.get_full_path(), request.data, *scope, *rights]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _rights_of(request: Request) -> list[JSON]:
    """Return the token's scopes, and the person's roles in projects and in the installation."""
    scopes = request.auth.scopes if isinstance(request.auth, Token) else None
    roles = Membership.objects.filter(user_id=_sender_id(request)).order_by("project_id")
    user = request.user
    is_admin = getattr(user, "is_superuser", False)
    is_staff = getattr(user, "is_staff", False)
    return [scopes, list(roles.values_list("project_id", "role")), is_admin, is_staff]
