"""The gate: one side is always at rest, and an error is everybody's who waits."""

import threading

import pytest

from workers.trainer.gate import Gate, Stopped, TrainerDied


@pytest.fixture
def running():
    """Start a thread that takes batches through `gate`, does `work` on each, and closes."""
    threads = []

    def start(gate, work):
        def live():
            try:
                while True:
                    work(gate.take())
            except Stopped:
                gate.close(None)
            except BaseException as error:
                gate.close(error)

        threads.append(threading.Thread(target=live, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_grant_returns_when_the_work_is_done(running):
    gate, done = Gate(), []
    running(gate, done.append)
    for batch in range(50):
        gate.grant(batch)
        assert done[-1] == batch
    gate.stop()


def test_the_error_of_the_thread_is_the_error_of_the_grant(running):
    gate = Gate()
    running(gate, lambda batch: 1 / batch)
    gate.grant(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            gate.grant(0)


def test_after_stop_no_batch_is_taken(running):
    gate = Gate()
    thread = running(gate, lambda batch: None)
    gate.wait()
    gate.stop()
    thread.join(60)
    with pytest.raises(TrainerDied):
        gate.grant(1)


def test_who_waits_for_a_thread_that_never_came_to_rest_gets_its_error():
    gate = Gate()
    threading.Thread(target=lambda: gate.close(MemoryError("no room"))).start()
    with pytest.raises(MemoryError, match="no room"):
        gate.wait()
