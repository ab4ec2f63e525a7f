"""The system calls that no guest may make, as a program for the kernel's filter: what namespaces and limits do not cover.

Refused are other processes' memory, keyrings, new namespaces and mounts, sockets of any family, the kernel's large interfaces
(bpf, perf, io_uring, userfaultfd), and memory that no limit counts (memfd, System V). Unless a guest may have processes, those
that make one are refused too; threads are bounded by their number. Numbers: asm/unistd_64.h and asm-generic/unistd.h of Linux 6.1.
"""

import errno
import os
import platform
import struct

CLONE_THREAD = 0x00010000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF instructions
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
X32 = 0x40000000  # numbers from here on are another table of x86-64's

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
FORKS = {"x86_64": (57, 58), "aarch64": ()}  # fork, vfork
CLONE3 = 435
REFUSED = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "add_key": 248, "request_key": 249, "keyctl": 250,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "iopl": 172, "ioperm": 173, "mq_open": 240,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
        "init_module": 175, "delete_module": 176, "finit_module": 313, "kexec_load": 246, "kexec_file_load": 320,
        "reboot": 169, "swapon": 167, "swapoff": 168, "sethostname": 170, "setdomainname": 171, "acct": 163, "quotactl": 179,
        "syslog": 103, "settimeofday": 164, "adjtimex": 159, "clock_settime": 227, "clock_adjtime": 305, "personality": 135,
        "memfd_create": 319, "name_to_handle_at": 303, "open_by_handle_at": 304, "socket": 41,
        "shmget": 29, "msgget": 68, "semget": 64,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "add_key": 217, "request_key": 218, "keyctl": 219,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "mq_open": 180,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
        "init_module": 105, "delete_module": 106, "finit_module": 273, "kexec_load": 104, "kexec_file_load": 294,
        "reboot": 142, "swapon": 224, "swapoff": 225, "sethostname": 161, "setdomainname": 162, "acct": 89, "quotactl": 60,
        "syslog": 116, "settimeofday": 170, "adjtimex": 171, "clock_settime": 112, "clock_adjtime": 266, "personality": 92,
        "memfd_create": 279, "name_to_handle_at": 264, "open_by_handle_at": 265, "socket": 198,
        "shmget": 194, "msgget": 186, "semget": 190,
    },
}  # fmt: skip
REFUSED_EVERYWHERE = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "pidfd_getfd": 438,
    "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip


class UnknownMachine(Exception):
    """No table of system calls is here for this machine's processor; the message names it."""


def program(processes: bool) -> bytes:
    """The filter, an array of struct sock_filter; `processes`: whether the guest may make some. Raises UnknownMachine."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise UnknownMachine(f"no sandbox for processors of the kind {machine!r}; it knows {' and '.join(ARCHITECTURES)}")
    code = [_do(LOAD, ARCHITECTURE), _do(EQUAL, ARCHITECTURES[machine], yes=1), _do(RETURN, KILL), _do(LOAD, NUMBER)]
    if machine == "x86_64":
        code += _return_if(AT_LEAST, X32, errno.ENOSYS)
    for number in (*REFUSED[machine].values(), *REFUSED_EVERYWHERE.values()):
        code += _return_if(EQUAL, number, errno.EPERM)
    code += [] if processes else _no_processes(machine)
    return b"".join([*code, _do(RETURN, ALLOW)])


def _no_processes(machine: str) -> list[bytes]:
    """The flags of clone3 lie in memory, where a filter cannot look: libraries that miss it turn to clone."""
    code = _return_if(EQUAL, CLONE3, errno.ENOSYS)
    for number in FORKS[machine]:
        code += _return_if(EQUAL, number, errno.EAGAIN)
    threads = [_do(LOAD, FIRST_ARGUMENT), _do(ANY_BIT, CLONE_THREAD, yes=1), _do(RETURN, REFUSE | errno.EAGAIN)]
    return [*code, _do(EQUAL, CLONE[machine], no=len(threads)), *threads]


def _return_if(test: int, value: int, error: int) -> list[bytes]:
    return [_do(test, value, no=1), _do(RETURN, REFUSE | error)]


def _do(instruction: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", instruction, yes, no, value)


def as_file(content: bytes, name: str) -> int:
    """A descriptor to read this from its beginning, open for reading alone; the caller closes it."""
    writable = os.memfd_create(name)
    try:
        with open(writable, "wb", closefd=False) as file:
            file.write(content)
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY)
    finally:
        os.close(writable)
