"""The batch queue: one side always waits, and an error reaches everybody who does."""

import threading

import pytest

from workers.trainer.batch_queue import BatchQueue, Stopped, TrainerDied


@pytest.fixture
def running():
    """Start a thread that takes batches through `batch_queue`, does `work` on each, and closes."""
    threads = []

    def start(batch_queue, work):
        def live():
            try:
                while True:
                    work(batch_queue.get())
            except Stopped:
                batch_queue.close(None)
            except BaseException as error:
                batch_queue.close(error)

        threads.append(threading.Thread(target=live, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_grant_returns_when_the_work_is_done(running):
    batch_queue = BatchQueue()
    done = []
    running(batch_queue, done.append)
    for batch in range(50):
        batch_queue.put(batch)
        assert done[-1] == batch
    batch_queue.stop()


def test_the_error_of_the_thread_is_the_error_of_the_grant(running):
    batch_queue = BatchQueue()
    running(batch_queue, lambda batch: 1 / batch)
    batch_queue.put(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            batch_queue.put(0)


def test_after_stop_no_batch_is_taken(running):
    batch_queue = BatchQueue()
    thread = running(batch_queue, lambda batch: None)
    batch_queue.wait()
    batch_queue.stop()
    thread.join(60)
    with pytest.raises(TrainerDied):
        batch_queue.put(1)


def test_who_waits_for_a_thread_that_never_came_to_rest_gets_its_error():
    batch_queue = BatchQueue()
    threading.Thread(target=lambda: batch_queue.close(MemoryError("no room"))).start()
    with pytest.raises(MemoryError, match="no room"):
        batch_queue.wait()
