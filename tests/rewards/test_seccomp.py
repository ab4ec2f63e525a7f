"""The list of system calls that guests may make, by name and processor architecture."""

import errno
import platform
import re
from pathlib import Path

import pytest

from apps.rewards.sandbox import Limits, prepare_program, seccomp

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
REFUSED = {
    "modify_ldt": (0, 0, 0),
    "inotify_init1": (0,),
    "socketpair": (1, 1, 0, 0),
    "landlock_create_ruleset": (0, 0, 1),
    "io_setup": (1, 0),
    "ptrace": (0, 0, 0, 0),
    "setns": (0, 0),
}
LATER = 100_000  # a system call that no kernel has


def numbers(machine: str) -> dict[str, int]:
    """Return the numbers in this machine's kernel headers."""
    path = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if path is None:
        pytest.skip(f"no headers of {machine} on this machine")
    found = re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", path.read_text())
    return {{"fstatat": "newfstatat"}.get(name, name): int(number) for name, number in found}


@pytest.mark.parametrize("machine", seccomp.ALLOWED)
def test_each_system_call_has_the_number_of_the_kernel_headers(machine):
    known = numbers(machine)
    wrong = {
        name: number
        for name, number in seccomp.ALLOWED[machine].items()
        if known.get(name, number) != number
    }
    assert wrong == {}
    assert len(set(seccomp.ALLOWED[machine].values())) == len(seccomp.ALLOWED[machine])


def test_system_calls_outside_the_list_are_refused():
    machine = platform.machine()
    known = numbers(machine)
    calls = [(known[name], *arguments) for name, arguments in REFUSED.items()]
    allowed = seccomp.ALLOWED[machine].values()
    others = sorted(
        number for name, number in known.items() if number not in allowed and name not in REFUSED
    )
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def asked(*call):
    ctypes.set_errno(0)
    return libc.syscall(*call), ctypes.get_errno()
print([asked(*call) for call in {calls}])
print({{asked(number, 0, 0, 0, 0, 0, 0) for number in {others}}})
print(asked({LATER}))
"""
    limits = Limits(cpu_s=10, wall_s=60)
    refused, rest, later = (
        prepare_program(source, "python").run(b"", limits).stdout.decode().splitlines()
    )
    assert refused == str([(-1, errno.EPERM)] * len(calls))
    assert rest == str({(-1, errno.EPERM)})
    assert later == str((-1, errno.ENOSYS))


def test_file_locks_and_large_pipes_are_refused():
    source = """
import fcntl, os
out, into = os.pipe()
lock = lambda: fcntl.lockf(open("/tmp/a", "w"), fcntl.LOCK_EX)
for act in (lock, lambda: fcntl.fcntl(into, 1031, 1 << 20)):
    try:
        print("done", act())
    except PermissionError as error:
        print(error.errno)
"""
    ended = prepare_program(source, "python").run(b"", Limits(cpu_s=10, wall_s=60))
    assert ended.stdout.split() == [b"1", b"1"], ended
