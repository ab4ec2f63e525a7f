"""The escape suite: hostile programs are contained, nothing outside changes, and none of their
processes survives.
"""

import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from apps.rewards.sandbox import DoesNotCompile, GuestResult, Limits, Program, prepare_program
from apps.rewards.sandbox.bubblewrap import NOBODY
from apps.rewards.sandbox.programs import CommandProgram
from tests.rewards.attacks import ATTACKS, COMPILED_IN, SLOW, Attack

LIMITS = Limits(cpu_s=1, wall_s=4, threads=4, memory_mb=96)
OF_NODE = Limits(
    cpu_s=2, wall_s=8, memory_mb=256
)  # starting it takes the usual limit on a busy machine
SECRET = "the secret of the project"


@dataclass(frozen=True)
class Outside:
    """The targets of the attacks: a file, and listeners of every kind."""

    canary: Path
    listeners: tuple[socket.socket, ...]
    words: dict[str, str]

    def aimed(self, source: str) -> str:
        for word, meant in self.words.items():
            source = source.replace(word, meant)
        return source


@pytest.fixture(scope="module")
def outside(tmp_path_factory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text(SECRET)
    name = f"rftweb-{os.getpid()}"
    with contextlib.ExitStack() as held:
        tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = held.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        udp.bind(tcp.getsockname())
        local, abstract = (held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        for listening, address in ((local, str(folder / "socket")), (abstract, f"\0{name}")):
            listening.bind(address)
            listening.listen()
        port = str(tcp.getsockname()[1])
        words = {
            "PORT": port,
            "PATH": str(folder / "socket"),
            "NAME": name,
            "CANARY": str(folder / "secret"),
        }
        yield Outside(folder / "secret", (tcp, udp, local, abstract), words)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.sentence for attack in ATTACKS])
def test_sandbox_holds_when(attack: Attack, outside: Outside):
    limits = OF_NODE if attack.language == "javascript" else LIMITS
    if attack.told != SLOW:  # it ends without a limit, later on a busy machine
        limits = replace(limits, cpu_s=20, wall_s=60)
    program = prepare_program(outside.aimed(attack.source), attack.language)
    several = len(ways(program)) if attack.told == SLOW else 1  # such a guest runs until its limit
    with ThreadPoolExecutor(several) as pool:
        endings = list(pool.map(lambda run: run(b"", limits), ways(program)))
    for ended in endings:
        told = (
            f"{(ended.stdout[:4096] + ended.stderr).decode(errors='replace')}\n{ended.stopped}"
            f" status {ended.status}"
        )
        assert "ESCAPED" not in told and SECRET not in told
        assert any(words in told for words in attack.told.split(" | ")), told


def ways(program: Program) -> list[Callable[[bytes, Limits], GuestResult]]:
    """Return the ways to run a program: in a forked guest, and alone in bubblewrap."""
    if isinstance(program, CommandProgram):
        return [program.run]
    return [program.run, program.run_alone]


@pytest.mark.parametrize("sentence", COMPILED_IN)
def test_sandbox_holds_while(sentence: str, outside: Outside):
    with pytest.raises(DoesNotCompile) as refusal:
        prepare_program(outside.aimed(COMPILED_IN[sentence]), "c")
    assert "not found" in str(refusal.value) or "No such file" in str(refusal.value)
    assert SECRET not in str(refusal.value)


def test_guest_does_not_see_files_of_another_guest():
    leaves = prepare_program("open('/tmp/left', 'w').write('x')\nprint('left')", "python").run(
        b"", LIMITS
    )
    finds = prepare_program("import os\nprint(os.listdir('/tmp'))", "python").run(b"", LIMITS)
    assert (leaves.stdout, finds.stdout) == (b"left\n", b"[]\n")


def test_attacks_change_nothing_outside_the_sandbox(outside: Outside):
    assert outside.canary.read_text() == SECRET
    for listening in outside.listeners:
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recvfrom(1) if listening.type == socket.SOCK_DGRAM else listening.accept()
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        assert [path for path in Path(folder).iterdir() if _owner(path) == NOBODY] == []


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:  # a file of another process, deleted meanwhile
        return None


def test_stopped_guest_leaves_no_process(guests, eventually):
    ended = prepare_program(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", "python"
    ).run(b"", LIMITS)
    assert ended.stopped and ended.seconds < 60  # it would take this long without a limit
    assert guests.seen
    eventually(lambda: not guests.alive(), 60)


def test_guest_cannot_write_to_the_systems_interpreter():
    """The interpreter's folder is mounted in every guest: the interpreter is the same after an
    attempt to write it.
    """
    target = Path(os.path.realpath("/usr/bin/python3"))
    before = hashlib.sha256(target.read_bytes()).hexdigest()
    ended = prepare_program(f"open({str(target)!r}, 'r+b').write(b'x')", "python").run(b"", LIMITS)
    assert ended.status == 1 and hashlib.sha256(target.read_bytes()).hexdigest() == before
