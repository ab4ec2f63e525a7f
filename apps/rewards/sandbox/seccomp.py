"""The system calls that a guest may make, as a program for the kernel's filter.

What is not on the list is refused, and so is what a later kernel adds until it is listed here.
Missing on purpose are other processes' memory, keyrings, namespaces and mounts, sockets, the
kernel's large interfaces (bpf, perf, io_uring, userfaultfd), descriptor tables of the processor
(modify_ldt), watches and file locks, whose memory no limit counts, and memory without an address
(memfd, System V). Unless a guest may have processes, those that make one are refused too; threads
are bounded by their number.

Numbers never change once a kernel has them: asm/unistd_64.h and asm-generic/unistd.h.
"""

import errno
import os
import platform
import struct
from collections.abc import Iterator, Sequence

CLONE_THREAD = 0x00010000
LOAD = 0x20
EQUAL = 0x15
AT_LEAST = 0x35
ANY_BIT = 0x45
RETURN = 0x06  # BPF instructions
# Offsets in struct seccomp_data.
NUMBER = 0
ARCHITECTURE = 4
FIRST_ARGUMENT = 16
SECOND_ARGUMENT = 24
ALLOW = 0x7FFF0000
REFUSE = 0x00050000
KILL = 0x80000000
X32 = 0x40000000  # numbers from here on are another table of x86-64's
# A library that asks for a later call is told that there is none, and does without.
LAST_KNOWN = 462

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Commands of fcntl: locks of ranges (each takes memory of the kernel's), and larger pipes.
REFUSED_COMMANDS = {
    "F_SETLK": 6,
    "F_SETLKW": 7,
    "F_OFD_SETLK": 37,
    "F_OFD_SETLKW": 38,
    "F_SETPIPE_SZ": 1031,
}
FORKS = ("fork", "vfork")
ALLOWED = {
    "x86_64": {
        "read": 0,
        "write": 1,
        "open": 2,
        "close": 3,
        "stat": 4,
        "fstat": 5,
        "lstat": 6,
        "poll": 7,
        "lseek": 8,
        "mmap": 9,
        "mprotect": 10,
        "munmap": 11,
        "brk": 12,
        "rt_sigaction": 13,
        "rt_sigprocmask": 14,
        "rt_sigreturn": 15,
        "ioctl": 16,
        "pread64": 17,
        "pwrite64": 18,
        "readv": 19,
        "writev": 20,
        "access": 21,
        "pipe": 22,
        "select": 23,
        "sched_yield": 24,
        "mremap": 25,
        "msync": 26,
        "mincore": 27,
        "madvise": 28,
        "dup": 32,
        "dup2": 33,
        "pause": 34,
        "nanosleep": 35,
        "getitimer": 36,
        "alarm": 37,
        "setitimer": 38,
        "getpid": 39,
        "sendfile": 40,
        "clone": 56,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "exit": 60,
        "wait4": 61,
        "kill": 62,
        "uname": 63,
        "fcntl": 72,
        "flock": 73,
        "fsync": 74,
        "fdatasync": 75,
        "truncate": 76,
        "ftruncate": 77,
        "getdents": 78,
        "getcwd": 79,
        "chdir": 80,
        "fchdir": 81,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "creat": 85,
        "link": 86,
        "unlink": 87,
        "symlink": 88,
        "readlink": 89,
        "chmod": 90,
        "fchmod": 91,
        "chown": 92,
        "fchown": 93,
        "lchown": 94,
        "umask": 95,
        "gettimeofday": 96,
        "getrlimit": 97,
        "getrusage": 98,
        "sysinfo": 99,
        "times": 100,
        "getuid": 102,
        "getgid": 104,
        "setuid": 105,
        "setgid": 106,
        "geteuid": 107,
        "getegid": 108,
        "setpgid": 109,
        "getppid": 110,
        "getpgrp": 111,
        "setsid": 112,
        "setreuid": 113,
        "setregid": 114,
        "getgroups": 115,
        "setgroups": 116,
        "setresuid": 117,
        "getresuid": 118,
        "setresgid": 119,
        "getresgid": 120,
        "getpgid": 121,
        "setfsuid": 122,
        "setfsgid": 123,
        "getsid": 124,
        "capget": 125,
        "capset": 126,
        "rt_sigpending": 127,
        "rt_sigtimedwait": 128,
        "rt_sigqueueinfo": 129,
        "rt_sigsuspend": 130,
        "sigaltstack": 131,
        "utime": 132,
        "statfs": 137,
        "fstatfs": 138,
        "getpriority": 140,
        "setpriority": 141,
        "sched_setparam": 142,
        "sched_getparam": 143,
        "sched_setscheduler": 144,
        "sched_getscheduler": 145,
        "sched_get_priority_max": 146,
        "sched_get_priority_min": 147,
        "sched_rr_get_interval": 148,
        "mlock": 149,
        "munlock": 150,
        "mlockall": 151,
        "munlockall": 152,
        "prctl": 157,
        "arch_prctl": 158,
        "setrlimit": 160,
        "sync": 162,
        "gettid": 186,
        "readahead": 187,
        "tkill": 200,
        "time": 201,
        "futex": 202,
        "sched_setaffinity": 203,
        "sched_getaffinity": 204,
        "epoll_create": 213,
        "getdents64": 217,
        "set_tid_address": 218,
        "restart_syscall": 219,
        "fadvise64": 221,
        "timer_create": 222,
        "timer_settime": 223,
        "timer_gettime": 224,
        "timer_getoverrun": 225,
        "timer_delete": 226,
        "clock_gettime": 228,
        "clock_getres": 229,
        "clock_nanosleep": 230,
        "exit_group": 231,
        "epoll_wait": 232,
        "epoll_ctl": 233,
        "tgkill": 234,
        "utimes": 235,
        "waitid": 247,
        "ioprio_set": 251,
        "ioprio_get": 252,
        "openat": 257,
        "mkdirat": 258,
        "fchownat": 260,
        "futimesat": 261,
        "newfstatat": 262,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "symlinkat": 266,
        "readlinkat": 267,
        "fchmodat": 268,
        "faccessat": 269,
        "pselect6": 270,
        "ppoll": 271,
        "set_robust_list": 273,
        "get_robust_list": 274,
        "splice": 275,
        "sync_file_range": 277,
        "utimensat": 280,
        "epoll_pwait": 281,
        "signalfd": 282,
        "timerfd_create": 283,
        "eventfd": 284,
        "fallocate": 285,
        "timerfd_settime": 286,
        "timerfd_gettime": 287,
        "signalfd4": 289,
        "eventfd2": 290,
        "epoll_create1": 291,
        "dup3": 292,
        "pipe2": 293,
        "preadv": 295,
        "pwritev": 296,
        "rt_tgsigqueueinfo": 297,
        "prlimit64": 302,
        "syncfs": 306,
        "getcpu": 309,
        "sched_setattr": 314,
        "sched_getattr": 315,
        "renameat2": 316,
        "getrandom": 318,
        "execveat": 322,
        "membarrier": 324,
        "mlock2": 325,
        "copy_file_range": 326,
        "preadv2": 327,
        "pwritev2": 328,
        "pkey_mprotect": 329,
        "pkey_alloc": 330,
        "pkey_free": 331,
        "statx": 332,
        "rseq": 334,
        "clone3": 435,
        "close_range": 436,
        "openat2": 437,
        "faccessat2": 439,
        "epoll_pwait2": 441,
        "futex_waitv": 449,
    },
    "aarch64": {
        "getcwd": 17,
        "eventfd2": 19,
        "epoll_create1": 20,
        "epoll_ctl": 21,
        "epoll_pwait": 22,
        "dup": 23,
        "dup3": 24,
        "fcntl": 25,
        "ioctl": 29,
        "ioprio_set": 30,
        "ioprio_get": 31,
        "flock": 32,
        "mkdirat": 34,
        "unlinkat": 35,
        "symlinkat": 36,
        "linkat": 37,
        "renameat": 38,
        "statfs": 43,
        "fstatfs": 44,
        "truncate": 45,
        "ftruncate": 46,
        "fallocate": 47,
        "faccessat": 48,
        "chdir": 49,
        "fchdir": 50,
        "fchmod": 52,
        "fchmodat": 53,
        "fchownat": 54,
        "fchown": 55,
        "openat": 56,
        "close": 57,
        "pipe2": 59,
        "getdents64": 61,
        "lseek": 62,
        "read": 63,
        "write": 64,
        "readv": 65,
        "writev": 66,
        "pread64": 67,
        "pwrite64": 68,
        "preadv": 69,
        "pwritev": 70,
        "sendfile": 71,
        "pselect6": 72,
        "ppoll": 73,
        "signalfd4": 74,
        "splice": 76,
        "readlinkat": 78,
        "newfstatat": 79,
        "fstat": 80,
        "sync": 81,
        "fsync": 82,
        "fdatasync": 83,
        "sync_file_range": 84,
        "timerfd_create": 85,
        "timerfd_settime": 86,
        "timerfd_gettime": 87,
        "utimensat": 88,
        "capget": 90,
        "capset": 91,
        "exit": 93,
        "exit_group": 94,
        "waitid": 95,
        "set_tid_address": 96,
        "futex": 98,
        "set_robust_list": 99,
        "get_robust_list": 100,
        "nanosleep": 101,
        "getitimer": 102,
        "setitimer": 103,
        "timer_create": 107,
        "timer_gettime": 108,
        "timer_getoverrun": 109,
        "timer_settime": 110,
        "timer_delete": 111,
        "clock_gettime": 113,
        "clock_getres": 114,
        "clock_nanosleep": 115,
        "sched_setparam": 118,
        "sched_setscheduler": 119,
        "sched_getscheduler": 120,
        "sched_getparam": 121,
        "sched_setaffinity": 122,
        "sched_getaffinity": 123,
        "sched_yield": 124,
        "sched_get_priority_max": 125,
        "sched_get_priority_min": 126,
        "sched_rr_get_interval": 127,
        "restart_syscall": 128,
        "kill": 129,
        "tkill": 130,
        "tgkill": 131,
        "sigaltstack": 132,
        "rt_sigsuspend": 133,
        "rt_sigaction": 134,
        "rt_sigprocmask": 135,
        "rt_sigpending": 136,
        "rt_sigtimedwait": 137,
        "rt_sigqueueinfo": 138,
        "rt_sigreturn": 139,
        "setpriority": 140,
        "getpriority": 141,
        "setregid": 143,
        "setgid": 144,
        "setreuid": 145,
        "setuid": 146,
        "setresuid": 147,
        "getresuid": 148,
        "setresgid": 149,
        "getresgid": 150,
        "setfsuid": 151,
        "setfsgid": 152,
        "times": 153,
        "setpgid": 154,
        "getpgid": 155,
        "getsid": 156,
        "setsid": 157,
        "getgroups": 158,
        "setgroups": 159,
        "uname": 160,
        "getrlimit": 163,
        "setrlimit": 164,
        "getrusage": 165,
        "umask": 166,
        "prctl": 167,
        "getcpu": 168,
        "gettimeofday": 169,
        "getpid": 172,
        "getppid": 173,
        "getuid": 174,
        "geteuid": 175,
        "getgid": 176,
        "getegid": 177,
        "gettid": 178,
        "sysinfo": 179,
        "readahead": 213,
        "brk": 214,
        "munmap": 215,
        "mremap": 216,
        "clone": 220,
        "execve": 221,
        "mmap": 222,
        "fadvise64": 223,
        "mprotect": 226,
        "msync": 227,
        "mlock": 228,
        "munlock": 229,
        "mlockall": 230,
        "munlockall": 231,
        "mincore": 232,
        "madvise": 233,
        "rt_tgsigqueueinfo": 240,
        "wait4": 260,
        "prlimit64": 261,
        "syncfs": 267,
        "sched_setattr": 274,
        "sched_getattr": 275,
        "renameat2": 276,
        "getrandom": 278,
        "execveat": 281,
        "membarrier": 283,
        "mlock2": 284,
        "copy_file_range": 285,
        "preadv2": 286,
        "pwritev2": 287,
        "pkey_mprotect": 288,
        "pkey_alloc": 289,
        "pkey_free": 290,
        "statx": 291,
        "rseq": 293,
        "clone3": 435,
        "close_range": 436,
        "openat2": 437,
        "faccessat2": 439,
        "epoll_pwait2": 441,
        "futex_waitv": 449,
    },
}
# What who starts guests needs besides; no guest has them.
OF_SERVERS = {
    "x86_64": {"sendmsg": 46, "recvmsg": 47, "pivot_root": 155, "mount": 165, "umount2": 166},
    "aarch64": {"umount2": 39, "mount": 40, "pivot_root": 41, "sendmsg": 211, "recvmsg": 212},
}


class UnknownMachine(Exception):
    """Raised for a processor without a table of system calls here; names it."""


def program(processes: bool, more: Sequence[str] = ()) -> bytes:
    """Return the filter, an array of struct sock_filter.

    - `processes`: whether a guest may start further processes.
    - `more`: further system calls that are allowed, of OF_SERVERS.

    Raises UnknownMachine.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        architectures = " and ".join(ARCHITECTURES)
        raise UnknownMachine(
            f"the sandbox does not support CPU architecture {machine!r}; supported: {architectures}"
        )
    calls = ALLOWED[machine] | {name: OF_SERVERS[machine][name] for name in more}
    code = [_do(LOAD, ARCHITECTURE), _do(EQUAL, ARCHITECTURES[machine], yes=1), _do(RETURN, KILL)]
    code.append(_do(LOAD, NUMBER))
    if machine == "x86_64":
        code += _return_if(AT_LEAST, X32, errno.ENOSYS)
    code += [] if processes else _no_processes(calls)
    code += _without_commands(calls["fcntl"])
    for first, last in _ranges(sorted(calls.values())):
        code += [_do(AT_LEAST, last + 1, yes=3), _do(AT_LEAST, first, no=1)]
        code += [_do(RETURN, ALLOW), _do(RETURN, REFUSE | errno.EPERM)]
    code += _return_if(AT_LEAST, LAST_KNOWN + 1, errno.ENOSYS)
    return b"".join([*code, _do(RETURN, REFUSE | errno.EPERM)])


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of successive numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _no_processes(calls: dict[str, int]) -> list[bytes]:
    """Return filter code that forbids new processes but allows threads.

    The flags of clone3 lie in memory, which a filter cannot read: it fails as if it did not exist,
    and libraries fall back to clone.
    """
    code = _return_if(EQUAL, calls["clone3"], errno.ENOSYS)
    for name in FORKS:
        code += _return_if(EQUAL, calls[name], errno.EAGAIN) if name in calls else []
    threads = [_do(LOAD, FIRST_ARGUMENT), _do(ANY_BIT, CLONE_THREAD, yes=1)]
    threads += [_do(RETURN, REFUSE | errno.EAGAIN), _do(LOAD, NUMBER)]
    return [*code, _do(EQUAL, calls["clone"], no=len(threads)), *threads]


def _without_commands(fcntl: int) -> list[bytes]:
    commands = [_do(LOAD, SECOND_ARGUMENT)]
    for command in REFUSED_COMMANDS.values():
        commands += _return_if(EQUAL, command, errno.EPERM)
    commands.append(_do(LOAD, NUMBER))
    return [_do(EQUAL, fcntl, no=len(commands)), *commands]


def _return_if(test: int, value: int, error: int) -> list[bytes]:
    return [_do(test, value, no=1), _do(RETURN, REFUSE | error)]


def _do(instruction: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", instruction, yes, no, value)


def as_file(content: bytes, name: str) -> int:
    """Return a descriptor to read this from its beginning, open for reading alone.

    The caller closes it.
    """
    writable = os.memfd_create(name)
    try:
        with open(writable, "wb", closefd=False) as file:
            file.write(content)
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY)
    finally:
        os.close(writable)
