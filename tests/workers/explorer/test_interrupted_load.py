"""A load that the database interrupts leaves no engine behind, which would keep its memory."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import OperationalError, connection

from workers.engines.transformers_loop import TransformersEngine

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def restarted_database(monkeypatch) -> Iterator[None]:
    """End the explorer's database connection while its first engine loads."""
    real = TransformersEngine.start

    def start(engine, *arguments):
        monkeypatch.setattr(TransformersEngine, "start", real)
        report = real(engine, *arguments)
        with suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return report

    monkeypatch.setattr(TransformersEngine, "start", start)
    yield
    connection.close()


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rollout-engine"]


def test_engine_is_stopped_when_the_database_is_away_at_the_end_of_its_load(
    watched_run, stage, restarted_database
):
    before = engine_threads()
    with pytest.raises(OperationalError):
        stage.explorer.serve()
    connection.close()  # as each slice does when the database was away
    stage.eventually(lambda: engine_threads() == before)
    assert not stage.explorer.sessions
    stage.eventually(lambda: stage.explorer.serve() and stage.session.rollouts)
    assert len(engine_threads()) == len(before) + 1
