"""A logging filter that keeps refused requests from filling the log.

Anybody can cause 4xx responses, as many as they like. Each would be a line, some with a traceback,
and the oldest lines of the installation's log are removed to make room. So these lines carry no
traceback, and their number per minute is limited; the next line that is kept says how many were
suppressed.
"""

import logging
import threading
import time
from http import HTTPStatus

ANONYMOUS_PER_MINUTE = 20
SIGNED_IN_PER_MINUTE = 120
SECURITY_LOGGERS = (
    "django.security.csrf",
    "django.security.DisallowedHost",
    "django.security.RequestDataTooBig",
    "django.security.SuspiciousFileOperation",
    "django.security.SuspiciousOperation",
    "django.security.TooManyFieldsSent",
    "django.security.TooManyFilesSent",
)


class ClientErrors(logging.Filter):
    """Limit lines about refused requests, apart for people who are signed in and for others."""

    def __init__(self) -> None:
        super().__init__()
        self.anonymous = Limit(ANONYMOUS_PER_MINUTE)
        self.signed_in = Limit(SIGNED_IN_PER_MINUTE)

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", None)
        is_security = record.name in SECURITY_LOGGERS
        if not is_security and (status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR):
            return True
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return False  # programs get many such responses a second, which throttle them
        if status == HTTPStatus.CONFLICT:
            # Somebody else was faster, which pages and programs expect: nothing is wrong.
            record.levelno = logging.INFO
            record.levelname = logging.getLevelName(logging.INFO)
        record.exc_info = None
        record.exc_text = None
        limit = self.signed_in if _is_signed_in(record) else self.anonymous
        return _keep(record, limit)


class Limit:
    """Let `per_minute` lines through in each minute, and count the others. Thread-safe."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self.lock = threading.Lock()
        self.minute = -1
        self.kept = 0
        self.suppressed = 0

    def admit(self, now: float | None = None) -> tuple[bool, int]:
        """Return (whether the line is kept, how many were suppressed since the last kept one)."""
        minute = int((time.monotonic() if now is None else now) // 60)
        with self.lock:
            if minute != self.minute:
                self.minute = minute
                self.kept = 0
            if self.kept >= self.per_minute:
                self.suppressed += 1
                return False, 0
            self.kept += 1
            suppressed = self.suppressed
            self.suppressed = 0
            return True, suppressed


def _keep(record: logging.LogRecord, limit: Limit) -> bool:
    is_kept, suppressed = limit.admit()
    if is_kept and suppressed:
        note = f" (and {suppressed} refused requests more, whose lines were left out)"
        record.msg = record.getMessage() + note
        record.args = ()
    return is_kept


def _is_signed_in(record: logging.LogRecord) -> bool:
    """Tell whether the request's user is known to be signed in, without a query."""
    user = getattr(getattr(record, "request", None), "_cached_user", None)
    return user is not None and user.is_authenticated
