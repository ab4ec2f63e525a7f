"""Rejected requests do not fill the log."""

import logging

import pytest

from rftweb.client_errors import ANONYMOUS_PER_MINUTE, ClientErrors, Limit


def record(name: str = "django.request", status: int | None = 404) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "", 0, "Not Found: %s", ("/x",), None)
    if status is not None:
        made.status_code = status
    return made


def test_only_a_limited_number_of_rejected_requests_per_minute_is_logged():
    errors = ClientErrors()
    assert sum(errors.filter(record()) for _ in range(10_000)) <= 2 * ANONYMOUS_PER_MINUTE


def test_next_logged_line_says_how_many_were_left_out():
    limit = Limit(2)
    assert [limit.admit(now=0.0)[0] for _ in range(5)] == [True, True, False, False, False]
    assert limit.admit(now=61.0) == (True, 3)
    assert limit.admit(now=62.0) == (True, 0)


@pytest.mark.parametrize("status", [500, 503, None])
def test_server_errors_are_always_logged(status):
    errors = ClientErrors()
    assert all(errors.filter(record(status=status)) for _ in range(500))


def test_rejected_request_logs_no_traceback():
    line = record(status=403)
    line.exc_info = (ValueError, ValueError("no"), None)
    assert ClientErrors().filter(line)
    assert line.exc_info is None


def test_requests_with_a_wrong_host_are_limited_too():
    errors = ClientErrors()
    lines = [record("django.security.DisallowedHost", status=None) for _ in range(1_000)]
    assert sum(map(errors.filter, lines)) <= 2 * ANONYMOUS_PER_MINUTE


def test_conflict_is_logged_as_info():
    said = record(status=409)
    assert ClientErrors().filter(said)
    assert (said.levelno, said.levelname) == (logging.INFO, "INFO")
