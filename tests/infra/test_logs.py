"""What a log line tells of an error: where it was, and no value that a function held."""

import logging

import pytest
from structlog.stdlib import ProcessorFormatter

from rftweb import logs


@pytest.fixture
def formatter() -> ProcessorFormatter:
    """Words on a terminal, as the settings have them by default."""
    fields = dict(logs._stdlib("console", "INFO")["formatters"]["structured"])
    return fields.pop("()")(**fields)


def open_the_door(secret: str) -> None:
    raise PermissionError(f"the door stays shut for {len(secret)} letters")


def test_an_errors_line_has_its_place_and_cause_and_tells_no_value(formatter):
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
    )  # in the source line of the call above, which is no value


@pytest.mark.parametrize("kind", ["console", "json"])
def test_the_secret_of_a_link_is_hidden(kind):
    fields = dict(logs._stdlib(kind, "INFO")["formatters"]["structured"])
    formatter = fields.pop("()")(**fields)
    link = "/invitations/rft_inv_abc-DEF_123/"
    record = logging.LogRecord("doors", logging.WARNING, __file__, 1, "refused: %s", (link,), None)
    assert "refused: /invitations/[secret]/" in formatter.format(record)
