"""Guests that a server forks.

Each starts fresh, is isolated from the others, and ends with its caller.
"""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apps.rewards.sandbox import Limits, NoSandbox, forking, prepare_program
from tests.descent import children, descendants, is_alive, is_called

LIMITS = Limits(cpu_s=20, wall_s=60, threads=4)
SEARCH = """
def found(word):
    import gc
    said = (part for one in gc.get_objects() for part in parts(one))
    texts = (part for part in said if isinstance(part, str | bytes))
    return sum(word in (text if isinstance(text, str) else text.decode(errors='replace'))
               for text in texts)
def parts(one):
    if isinstance(one, dict):
        return [*one.keys(), *one.values()]
    return one if type(one) in (list, tuple, set) else ()
print(found('DROWTERCES'[::-1]))
"""


@pytest.fixture
def forked():
    """Start a new server; skip the test on machines where it cannot start."""
    forking.stop_fork_servers()
    prepare_program("", "python").run(b"", LIMITS)
    if forking.why_not_forked():
        pytest.skip(f"no server of guests here: {forking.why_not_forked()}")
    yield
    forking.stop_fork_servers()


def run(source: str, stdin: bytes = b"", limits: Limits = LIMITS) -> bytes:
    ended = prepare_program(source, "python").run(stdin, limits)
    return ended.stdout + ended.stderr + ended.stopped.encode()


def test_stopped_server_ends_with_its_guests_and_is_replaced_at_the_next_run(forked, eventually):
    first = forking._servers[False].process.pid
    its_own = descendants(first)
    forking.stop_fork_servers()
    eventually(lambda: not any(map(is_alive, [first, *its_own])), 60)
    assert its_own and run("print(4)") == b"4\n"
    assert forking._servers[False].process.pid != first


def test_killed_server_is_replaced(forked):
    os.kill(forking._servers[False].process.pid, signal.SIGKILL)
    assert run("print(4)") == b"4\n"


def test_guest_that_dies_with_its_server_is_run_again(forked, eventually):
    server = forking._servers[False].process.pid
    idle = len(descendants(server))
    with ThreadPoolExecutor(1) as aside:
        said = aside.submit(run, "import time\ntime.sleep(1)\nprint(4)")
        eventually(lambda: len(descendants(server)) > idle, 60)
        os.kill(server, signal.SIGKILL)
        assert said.result(60) == b"4\n"


def test_concurrent_guests_have_separate_programs_inputs_and_folders(forked):
    source = (
        "import os, sys\nopen('/tmp/a', 'x').write(input())\nprint(open('/tmp/a').read(),"
        " os.getpid(), {})"
    )
    with ThreadPoolExecutor(8) as several:
        said = list(several.map(lambda n: run(source.format(n), b"input %d\n" % n), range(40)))
    assert said == [b"input %d 2 %d\n" % (n, n) for n in range(40)]


def test_guest_finds_no_data_of_the_previous_guest(forked):
    run(
        "secret = 'SECRETWORD'\nimport json, builtins\njson.left = builtins.left = secret",
        b"SECRETWORD",
    )
    assert run(SEARCH) == b"0\n"
    assert (
        run("import json\nprint(hasattr(json, 'left'), 'left' in dir(__builtins__))")
        == b"False False\n"
    )


def test_two_guests_draw_different_random_numbers(forked):
    assert run("import random\nprint(random.random())") != run(
        "import random\nprint(random.random())"
    )


def test_threads_of_one_guest_do_not_affect_the_threads_of_others(forked, eventually):
    begins = (
        "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, args=({},),"
        " daemon=True).start()\n"
    )
    waits = begins.format(50) + "time.sleep(50)"
    with ThreadPoolExecutor(3) as several:
        waiting = [several.submit(run, waits) for _ in range(3)]
        eventually(lambda: _threads() == [4, 4, 4])
        assert run(begins.format(0) + "print('mine')") == b"mine\n"
        assert _threads() == [4, 4, 4]
        for init in _inits():
            os.kill(init, signal.SIGKILL)
        assert all(isinstance(one.exception(), NoSandbox) for one in waiting)


def test_guest_exits_as_an_interpreter_does_with_threads_and_exit_handlers(forked):
    source = "import atexit, threading, time, sys\natexit.register(lambda: print('last'))\n"
    source += (
        "threading.Thread(target=lambda: (time.sleep(0.2),"
        " print('thread'))).start()\nprint('first')\nsys.exit('why')"
    )
    ended = prepare_program(source, "python").run(b"", LIMITS)
    assert (ended.stdout, ended.stderr, ended.status) == (b"first\nthread\nlast\n", b"why\n", 1)


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(4)", 4),
        ("1 / 0", 1),
        ("import os; os.abort()", 134),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("exit()", 0),
        ("x = (", 1),
    ],
)
def test_exit_status_of_a_guest_is_the_same_forked_and_alone(forked, source, status):
    program = prepare_program(source, "python")
    assert program.run(b"", LIMITS).status == program.run_alone(b"", LIMITS).status == status


def test_server_survives_the_end_of_the_thread_that_started_it(forked):
    forking.stop_fork_servers()
    first = threading.Thread(target=run, args=("print(1)",))
    first.start()
    first.join()
    server = forking._servers[False]
    assert run("print(4)") == b"4\n" and forking._servers[False] is server


def test_forked_process_of_ours_starts_its_own_server(forked):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        is_right = not forking._servers and run("print(4)") == b"4\n"
        os.write(writing, b"right" if is_right else b"wrong")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 8) == b"right"
    assert run("print(5)") == b"5\n"
    os.close(reading)
    os.close(writing)


def test_guests_run_without_a_server_if_it_cannot_start(forked, monkeypatch):
    forking.stop_fork_servers()
    monkeypatch.setattr(
        "apps.rewards.sandbox.python.server_text", lambda: "raise SystemExit('no such thing')"
    )
    assert run("print(4)") == b"4\n"
    assert "no such thing" in forking.why_not_forked()


def test_guest_whose_init_is_killed_from_outside_raises_no_sandbox(forked, eventually):
    waiting = ThreadPoolExecutor(1).submit(run, "import time\ntime.sleep(50)")
    eventually(_inits, 60)
    os.kill(_inits()[0], signal.SIGKILL)
    with pytest.raises(NoSandbox, match="killed from outside"):
        waiting.result()


def _inits() -> list[int]:
    """Return the inits of guests that run their code."""
    guests = _guests()
    return [pid for pid in guests if set(children(pid)) & set(guests)]


def _threads() -> list[int]:
    """Count the threads of each guest that runs its code."""
    inits = _inits()
    return [
        len(list(Path(f"/proc/{pid}/task").glob("*"))) for init in inits for pid in children(init)
    ]


def _guests() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if is_called(pid, "guest")]
