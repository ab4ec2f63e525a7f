"""The sandbox returns the results of code, which can reach nothing of this machine."""

import pytest

from apps.rewards.sandbox import Call, NoSandbox, Outcome, bubblewrap, forking, run_calls

ATTACKS = """
import os

def secrets():
    return [sorted(os.environ), os.path.exists("/etc/passwd"), os.path.exists("/proc/1/environ"),
            os.path.exists("/root"),
            os.path.exists("/work"), os.path.exists("/home")]

def connect():
    import socket
    socket.create_connection(("127.0.0.1", PORT), 1)

def fork():
    return os.fork()

def thread():
    import threading
    threading.Thread(target=print).start()

def remember():
    return len(bytearray(1 << 30))

def namespaces():
    import ctypes
    return ctypes.CDLL(None).unshare(0x10000000)

def large_file():
    with open("/tmp/large", "wb") as file:
        file.write(bytes(2 << 20))

def fill():
    written = 0
    for number in range(100):
        with open(f"/tmp/{number}", "wb") as file:
            written += file.write(bytes(1 << 19))
    return written

def write_out():
    open("/usr/lib/python3/mine.py", "w")

def signal():
    os.kill(os.getppid(), 9)
    return os.getpid() < 10
"""


@pytest.fixture(scope="module")
def attacked() -> dict[str, Outcome]:
    import socket

    names = [
        line.split()[1].removesuffix("():")
        for line in ATTACKS.splitlines()
        if line.startswith("def ")
    ]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = ATTACKS.replace("PORT", str(listening.getsockname()[1]))
        return dict(zip(names, run_calls(code, [Call(name, ()) for name in names]), strict=True))


def test_results_of_calls_come_back_in_order():
    code = "print('noise')\ndef double(x):\n    return x * 2\ndef odd(x):\n    return {1}\n"
    calls = [
        Call("double", (4,)),
        Call("double", ("ab",)),
        Call("odd", (1,)),
        Call("missing", ()),
        Call("double", ()),
    ]
    four, text, odd, missing, wrong = run_calls(code, calls)
    assert (four, text) == (Outcome(8), Outcome("abab"))
    assert (
        "set" in odd.error
        and missing.error == "function missing not found"
        and wrong.error.startswith("TypeError")
    )


def test_code_sees_no_environment_files_or_processes(attacked):
    names, *there = attacked["secrets"].value
    assert "PATH" not in names and "DATABASE_URL" not in names and not any(there)
    assert attacked["signal"].value is True or "Operation not permitted" in attacked["signal"].error


@pytest.mark.parametrize(
    ("attack", "error"),
    [
        ("connect", "Operation not permitted"),
        ("fork", "BlockingIOError"),
        ("thread", "can't start new thread"),
        ("remember", "MemoryError"),
        ("fill", "No space left"),
        ("write_out", "Read-only"),
        ("large_file", "File too large"),
    ],
)
def test_code_has_no_network_and_limited_resources(attacked, attack, error):
    assert error in attacked[attack].error


def test_code_cannot_create_namespaces(attacked):
    assert attacked["namespaces"].value == -1


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("while True: pass", "it took longer"),
        ("import time; time.sleep(60)", "it took longer"),
        ("import os; os._exit(0)", "cannot be read"),
        ("import os; os.abort()", "it ended its process"),
        ("import os\n while True: os.write(3, b'x' * 60000)", "wrote too much"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("raise ValueError('\\0\\ud800')", "ValueError"),
    ],
)
def test_code_that_fails_returns_no_value_but_an_error(body, error):
    (outcome,) = run_calls(f"def f():\n {body}", [Call("f", ())])
    assert outcome.value is None and error in outcome.error


def test_without_bubblewrap_no_code_is_run(monkeypatch):
    forking.stop_fork_servers()
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda *_, **__: None)
    with pytest.raises(NoSandbox, match="bubblewrap"):
        run_calls("def f(): pass", [Call("f", ())])


def test_status_is_read_only_from_complete_lines_of_a_report():
    guest = object.__new__(bubblewrap._BubblewrappedGuest)
    guest.messages = b'{ "child-pid": 185'
    assert guest.status is None
    guest.messages = b'{ "child-pid": 18569 }\n{ "exit-code": 3 }\n{ "exit'
    assert guest.status == 3
