"""A separate thread stores the log of a process in batches: without secrets, within bounds, and
without blocking.
"""

import logging
import threading

import pytest
import structlog
from django.db import connection

from apps.runs import log_keeper
from apps.runs.log_keeper import HIDDEN, LogKeeper, shorten_value
from apps.runs.models import LogLine

LONG_S = 60.0


@pytest.fixture
def keeper(transactional_db):
    """Attach a log keeper to one logger."""
    made = LogKeeper("scorer@here:1:1", waiting=20)
    logger = logging.getLogger("tests.kept")
    logger.setLevel(logging.INFO)
    logger.addHandler(made)
    yield made
    logger.removeHandler(made)
    assert made.settle(LONG_S)
    made.close()
    assert made.thread is None or not made.thread.is_alive()


@pytest.fixture
def log():
    return structlog.get_logger("tests.kept")


def kept(keeper: LogKeeper) -> list[LogLine]:
    assert keeper.settle(LONG_S)
    return list(LogLine.objects.order_by("pk"))


def test_event_becomes_a_line_of_its_run_with_its_fields(keeper, log, run):
    log.info("scored", run=run, groups=[1, 2], seconds=0.5)
    [line] = kept(keeper)
    assert (line.event, line.run, line.level, line.worker) == (
        "scored",
        run,
        LogLine.Level.INFO,
        "scorer@here:1:1",
    )
    assert line.fields == {"run": run.slug, "groups": [1, 2], "seconds": 0.5}


def test_message_of_a_library_becomes_a_line_with_its_text(keeper):
    logging.getLogger("tests.kept").warning("lost %d of %d", 3, 4)
    [line] = kept(keeper)
    assert (line.event, line.level, line.run) == ("lost 3 of 4", LogLine.Level.WARNING, None)


def test_error_keeps_its_traceback(keeper, log):
    try:
        raise ValueError("the reason")
    except ValueError:
        log.exception("failed")
    [line] = kept(keeper)
    assert line.level == LogLine.Level.ERROR
    assert (
        "ValueError: the reason" in line.fields["traceback"]
        and __name__.rpartition(".")[2] in line.fields["traceback"]
    )


@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"password": "hunter2"}, "hunter2"),
        ({"api_key": "abc"}, "abc"),
        ({"headers": {"Authorization": "Basic xyz"}}, "xyz"),
        ({"reason": "refused: Bearer abcdefghijklmnop"}, "abcdefghijklmnop"),
        ({"reason": "rft_usr_abcdefgh is revoked"}, "abcdefgh"),
        ({"address": "postgresql://ann:hunter2@db/x"}, "hunter2"),
        ({"tried": ["hf_abcdefghijklmnopqrst"]}, "abcdefghijklmnopqrst"),
    ],
)
def test_secrets_are_hidden(fields, secret):
    said = str(shorten_value(fields))
    assert secret not in said and HIDDEN in said


def test_fields_that_only_resemble_secrets_are_kept():
    fields = {"tokens": 12, "token_ids": [1, 2], "key": "scorer@here:1", "loss": 0.5}
    assert shorten_value(fields) == fields


def test_values_that_cannot_be_stored_are_converted_or_cut(keeper, log):
    log.info(
        "odd",
        text="a\x00b",
        half="\ud800",
        nan=float("nan"),
        long="x" * 10_000,
        thing=object,
        many=list(range(1000)),
    )
    [line] = kept(keeper)
    assert (line.fields["text"], line.fields["nan"], line.fields["half"]) == ("a�b", "nan", "?")
    assert (
        len(line.fields["long"]) == log_keeper.MAX_VALUE_LENGTH
        and len(line.fields["many"]) == log_keeper.MAX_ITEMS
    )


def test_slow_database_blocks_no_logging_and_dropped_lines_are_counted(keeper, log, monkeypatch):
    open_again = threading.Event()
    put = log_keeper.write_lines

    def slow(lines):
        open_again.wait(LONG_S)
        put(lines)

    monkeypatch.setattr(log_keeper, "write_lines", slow)
    for n in range(100):
        log.info("said", n=n)  # must return at once, or the test would hang
    dropped = keeper.dropped
    assert 0 < dropped <= 80  # 20 are queued, and some were taken before
    open_again.set()
    kept(keeper)
    log.info("later")
    said = [line for line in kept(keeper) if line.event == "log_lines_dropped"]
    # The first batch may have been on its way before the last lines were dropped.
    assert sum(line.fields["lines"] for line in said) == dropped
    assert {line.level for line in said} == {LogLine.Level.WARNING}
    assert LogLine.objects.filter(event="said").count() == 100 - dropped


def test_line_of_a_deleted_run_is_kept(keeper, log, new_run):
    run = new_run()
    run.pk = 10**9
    log.info("scored", run=run)
    [line] = kept(keeper)
    assert (line.run, line.fields["run"]) == (None, "run-0")


def test_lines_are_written_once_the_database_is_back(keeper, log, monkeypatch):
    tried = []
    put = log_keeper.write_lines

    def away_once(lines):
        tried.append(len(lines))
        if len(tried) == 1:
            connection.ensure_connection()
            raise log_keeper.OperationalError("away")
        put(lines)

    monkeypatch.setattr(log_keeper, "write_lines", away_once)
    monkeypatch.setattr(log_keeper, "RETRY_S", 0.01)
    log.info("scored")
    assert [line.event for line in kept(keeper)] == ["scored"] and len(tried) == 2
