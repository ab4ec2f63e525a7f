"""`Idempotency-Key`: a write that its sender names is done once, however often it arrives.

The same key with the same body gets the answer of the first time; with another body it is refused (422); while the first is
still at work, 409 of the kind `at_work`, with when to ask again. A key is kept for a day, and that of a request that was refused
is free again at once. Behind it stand the rows' own unique keys: they hold for ever, and also for those who send no key.
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
LONGEST = 255
KEPT = timedelta(days=1)
AT_WORK = timedelta(seconds=70)  # longer than any statement may take: who has not answered by then never will
SWEEP_EVERY, MOST_SWEPT = 200, 2_000  # one key in so many clears away old ones, so many at once
PARAMETER = OpenApiParameter(
    HEADER, str, OpenApiParameter.HEADER, description="Names this request: sent again with the same body it is done once."
)


def once(act: Callable[..., Response]) -> Callable[..., Response]:
    """Around a view's method: the answer is kept and given again."""
    return _named(act, is_kept=True)


def once_anew(act: Callable[..., Response]) -> Callable[..., Response]:
    """Around a method that changes nothing when it is called again, and whose answer may come later: it is called again.

    What it must know then of the first time, it leaves with `keep` and finds with `kept`.
    """
    return _named(act, is_kept=False)


def _named(act: Callable[..., Response], is_kept: bool) -> Callable[..., Response]:
    @wraps(act)
    def named(view: object, request: Request, *args: object, **kwargs: object) -> Response:
        key = _key_of(request)
        if key is None:
            return act(view, request, *args, **kwargs)
        row, is_ours = _claim(request, key, _digest_of(view, request, is_kept))
        if not is_ours:
            return Response(row.answer, row.status) if is_kept else act(view, request, *args, **kwargs)
        try:
            answer = act(view, request, *args, **kwargs)
        except Exception:
            OnceRequest.objects.filter(pk=row.pk, begun_at=row.begun_at).delete()
            raise
        said = {"answer": answer.data} if is_kept else {}
        OnceRequest.objects.filter(pk=row.pk, begun_at=row.begun_at).update(status=answer.status_code, **said)
        return answer

    return named


def _key_of(request: Request) -> str | None:
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= LONGEST and key.isascii() and key.isprintable()):
        raise serializers.ValidationError({HEADER: [f"Must be 1 to {LONGEST} printable ASCII characters."]})
    return key


def forget(request: Request) -> None:
    """What was kept under the request's key answers nothing any more: it is done anew."""
    _rows(request).delete()


def keep(request: Request, told: JSON) -> None:
    """In the transaction of what is done: what those who send the same request again must know of it. Nothing without a key."""
    if _key_of(request) is not None:
        _rows(request).update(answer=told)


def kept(request: Request) -> JSON:
    """What the same request left with `keep` when it came before; None when it did not."""
    return None if _key_of(request) is None else _rows(request).values_list("answer", flat=True).first()


def _rows(request: Request) -> QuerySet[OnceRequest]:
    return OnceRequest.objects.filter(user_id=request.user.pk, key=_key_of(request))


def _claim(request: Request, key: str, digest: str) -> tuple[OnceRequest, bool]:
    """(the key's row, whether it is this request that does it). Raises ValidationError, AtWork."""
    now = timezone.now()
    _sweep(request, key)
    row, is_new = OnceRequest.objects.get_or_create(user_id=request.user.pk, key=key, defaults={"digest": digest, "begun_at": now})
    if is_new:
        return row, True
    if row.digest != digest:
        raise serializers.ValidationError({HEADER: ["Was used for another request, or with other permissions; use a new key."]})
    if row.status is not None:
        return row, False
    late = OnceRequest.objects.filter(pk=row.pk, status=None, begun_at=row.begun_at, begun_at__lt=now - AT_WORK)
    if not late.update(begun_at=now):
        raise AtWork("The request of this Idempotency-Key is still at work; ask again in a second.")
    row.begun_at = now
    return row, True


def _sweep(request: Request, key: str) -> None:
    """This key is free again after a day; every so often so are those that nobody asks about."""
    old = OnceRequest.objects.filter(begun_at__lt=timezone.now() - KEPT)
    old.filter(user_id=request.user.pk, key=key).delete()
    if secrets.randbelow(SWEEP_EVERY) == 0:
        OnceRequest.objects.filter(pk__in=old.values("pk")[:MOST_SWEPT]).delete()


def _digest_of(view: object, request: Request, is_kept: bool) -> str:
    """Digest all that makes the request another one.

    A view whose callers differ in more than the body names that in `once_scope`. Where the first
    answer is given again without asking the view, what the sender may do belongs to it as well: a
    narrower token, or a role that was taken away, must not read what a wider one was answered.
    """
    scope = view.once_scope(request) if hasattr(view, "once_scope") else []
    rights = _rights_of(request) if is_kept else []
    content = [request.method, request.get_full_path(), request.data, *scope, *rights]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _rights_of(request: Request) -> list[JSON]:
    """Return the token's scopes, and the person's roles in projects and in the installation."""
    scopes = request.auth.scopes if isinstance(request.auth, Token) else None
    roles = Membership.objects.filter(user_id=request.user.pk).order_by("project_id")
    user = request.user
    is_admin = getattr(user, "is_superuser", False)
    is_staff = getattr(user, "is_staff", False)
    return [scopes, list(roles.values_list("project_id", "role")), is_admin, is_staff]
