"""The batch queue: one side always waits, and an error reaches every waiting thread."""

import threading

import pytest

from workers.trainer.batch_queue import BatchQueue, Stopped, TrainerDied


@pytest.fixture
def running():
    """Return a function that starts a thread to `work` on each batch and then close the queue."""
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


def test_put_returns_when_the_work_is_done(running):
    batch_queue = BatchQueue()
    done = []
    running(batch_queue, done.append)
    for batch in range(50):
        batch_queue.put(batch)
        assert done[-1] == batch
    batch_queue.stop()


def test_error_of_the_thread_is_raised_by_put(running):
    batch_queue = BatchQueue()
    running(batch_queue, lambda batch: 1 / batch)
    batch_queue.put(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            batch_queue.put(0)


def test_put_after_stop_raises_an_error(running):
    batch_queue = BatchQueue()
    thread = running(batch_queue, lambda batch: None)
    batch_queue.wait()
    batch_queue.stop()
    thread.join(60)
    with pytest.raises(TrainerDied):
        batch_queue.put(1)


def test_wait_raises_the_error_of_a_thread_that_never_became_ready():
    batch_queue = BatchQueue()
    threading.Thread(target=lambda: batch_queue.close(MemoryError("no room"))).start()
    with pytest.raises(MemoryError, match="no room"):
        batch_queue.wait()
