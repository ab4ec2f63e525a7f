"""A log line of an error shows its place and no local values of functions."""

import logging

import pytest
from structlog.stdlib import ProcessorFormatter

from rftweb import logs


@pytest.fixture
def formatter() -> ProcessorFormatter:
    """Return the formatter for terminals, which is the default of the settings."""
    fields = dict(logs._stdlib("console", "INFO")["formatters"]["structured"])
    return fields.pop("()")(**fields)


def open_the_door(secret: str) -> None:
    raise PermissionError(f"the door stays shut for {len(secret)} letters")


def test_error_log_line_has_place_and_cause_and_shows_no_values(formatter):
    try:
        open_the_door("sesame")
    except PermissionError as error:
        record = logging.LogRecord(
            "doors",
            logging.ERROR,
            __file__,
            1,
            "not opened",
            (),
            (type(error), error, error.__traceback__),
        )
    line = formatter.format(record)
    assert (
        "not opened" in line and "in open_the_door" in line and "stays shut for 6 letters" in line
    )
    assert line.count("sesame") == 1, (
        line
    )  # this is in the source line of the call above, and not a value


@pytest.mark.parametrize("kind", ["console", "json"])
def test_secret_of_an_invitation_link_is_hidden_in_log_lines(kind):
    fields = dict(logs._stdlib(kind, "INFO")["formatters"]["structured"])
    formatter = fields.pop("()")(**fields)
    link = "/invitations/rft_inv_abc-DEF_123/"
    record = logging.LogRecord("doors", logging.WARNING, __file__, 1, "refused: %s", (link,), None)
    assert "refused: /invitations/[secret]/" in formatter.format(record)
