"""Fork a guest for each request, inside of bubblewrap, from one warm interpreter.

The sandbox starts it as one program: the source of this file comes after that of `values`,
`prelude` and `guest`. The server reads requests from its standard input, a socket, and nothing that
a guest wrote: programs and inputs pass through it as descriptors that only the guest's own
processes read. A guest is two processes in namespaces
of their own, with their own users, processes, mounts and names: an init, which is ours, and the one
that runs the code. That one has no capabilities, no descriptors but the three streams, and a filter
of system calls, before it reads a line of the code.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import platform
import resource
import signal
import socket
import sys
import threading

from apps.rewards.sandbox.guest import LIBRARIES, main
from apps.rewards.sandbox.prelude import prelude_names

ROOT = "/guest"  # where the guests' root is prepared
RULES = "/server/rules"  # the filter of system calls
ALONE = (
    0x10000000 | 0x20000 | 0x20000000 | 0x08000000 | 0x04000000 | 0x02000000
)  # user, mounts, pids, ipc, names, cgroup
CLONE = {"x86_64": 56, "aarch64": 220}
CLOSE_RANGE = 436  # on every processor
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NOSUID = 2
NODEV = 4
READ_ONLY = 1
REMOUNT = 32
BIND = 4096
RECURSIVE = 16384
DETACH = 2
SET_NAME = 15
SET_DUMPABLE = 4
DROP_BOUND = 24
NO_NEW_PRIVILEGES = 38
SET_SECCOMP = 22
FILTER = 2
CAPABILITIES_VERSION = 0x20080522
MAX_CAPABILITIES = 64
MAX_REQUEST_BYTES = 64 << 10
MAX_DESCRIPTORS = 16
HERE = "/tmp"
INODES = 20_000  # a bound that the kernel keeps; the watcher outside stops a guest long before

libc = ctypes.PyDLL(None, use_errno=True)


def require_success(result):
    """Return the result of a system call, or raise OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def serve():
    """Answer requests until the other side is gone."""
    # With family and type given, Python does not ask the kernel for them, which would refuse.
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # nobody waits for the inits: the kernel removes them
    prepare()
    control.sendmsg([b"up"])
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
        if not message:
            os._exit(0)
        try:
            if clone() == 0:
                control.close()
                end_as_init(json.loads(message), descriptors)
        except OSError as error:
            os.write(descriptors[0], f"failed: {error}".encode())
        for descriptor in descriptors:
            os.close(descriptor)


def prepare():
    """Import what guests may need, so that they begin with it."""
    prelude_names()
    importlib.import_module("_sitebuiltins")
    sys.path.append(LIBRARIES)
    for library in json.loads(sys.argv[1]):
        importlib.import_module(library)
    for name in ("OPENBLAS_NUM_THREADS", "PWD"):
        os.environ.pop(name, None)
    os.environ["PWD"] = HERE
    gc.collect()
    gc.freeze()  # the collector skips what is loaded already, so that guests share its memory


def clone():
    """Fork into new namespaces, by a direct system call: Python has none for it."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = libc.syscall(CLONE[platform.machine()], ALONE | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return require_success(pid)


# -- the init of a guest ---------------------------------------------------------------------------


def end_as_init(request, descriptors):
    """Run as the init of a guest until it ends; report an error if the guest cannot start."""
    try:
        be_init(request, descriptors)
    except BaseException as error:
        os.write(descriptors[0], f"failed: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def be_init(request, descriptors):
    """Prepare the guest's world, start its process, and tell how that ends."""
    messages, *streams = descriptors
    streams, files = streams[:3], dict(zip(request["files"], streams[3:], strict=True))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the guest cannot interrupt it
    libc.prctl(SET_NAME, b"guest", 0, 0, 0)
    libc.prctl(SET_DUMPABLE, 1, 0, 0, 0)
    map_user(request["user"], request["group"])
    os.setsid()
    make_root(request, files)
    drop_capabilities()
    os.write(messages, b"ready")
    if os.read(messages, 8) != b"go":
        os._exit(1)
    pid = os.fork()
    if pid == 0:
        be_guest(request, streams)
    os.closerange(0, messages)
    close_from(messages + 1)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os.write(messages, json.dumps({"exit-code": code if code >= 0 else 128 - code}).encode())
    os._exit(0)


def map_user(user, group):
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def make_root(request, files):
    """Make the prepared root the guest's, with a folder to write to and its files.

    The guest sees nothing else.
    """
    root = ROOT.encode()
    mount(root, root, None, BIND | RECURSIVE)
    room = f"size={request['space']},nr_inodes={INODES},mode=0755".encode()
    mount(b"guest", root + b"/tmp", b"tmpfs", NOSUID | NODEV, room)
    mount(b"guest", root + b"/code", b"tmpfs", NOSUID | NODEV, b"mode=0755")
    for name, descriptor in files.items():
        write_file(f"{ROOT}/code/{name}", descriptor)
    mount(b"guest", root + b"/code", None, REMOUNT | BIND | READ_ONLY | NOSUID | NODEV)
    os.chdir(ROOT)
    require_success(libc.syscall(PIVOT_ROOT[platform.machine()], b".", b"."))
    require_success(libc.umount2(b".", DETACH))
    os.chdir(HERE)


def mount(source, target, kind, flags, options=None):
    require_success(libc.mount(source, target, kind, ctypes.c_ulong(flags), options))


def write_file(path, descriptor):
    with open(path, "wb") as file:
        size = os.fstat(descriptor).st_size
        at = 0
        while at < size:
            at += os.sendfile(file.fileno(), descriptor, at, size - at)
        os.fchmod(file.fileno(), 0o555)


def drop_capabilities():
    for capability in range(MAX_CAPABILITIES):
        if libc.prctl(DROP_BOUND, capability, 0, 0, 0) < 0:
            break
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    require_success(libc.capset(header, (ctypes.c_uint32 * 6)()))


# -- the guest -------------------------------------------------------------------------------------


def be_guest(request, streams):
    """Give up everything but the three streams, then do what the role asks for, and end."""
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    close_from(3)
    for name, limit in request["limits"].items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    lock_system_calls()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    os._exit(outcome_of(request["role"], request["prelude"]))


def close_from(first):
    require_success(libc.syscall(CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), 0))


class Program(ctypes.Structure):
    """C structure sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def lock_system_calls():
    require_success(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    text = ctypes.create_string_buffer(FILTER_TEXT, len(FILTER_TEXT))
    program = Program(len(FILTER_TEXT) // 8, ctypes.addressof(text))
    require_success(libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0))


def outcome_of(role, has_prelude):
    """Run the role to the end of the interpreter, as far as code can see it.

    Return the exit status.
    """
    code = 0
    try:
        main(role, has_prelude)
    except SystemExit as leave:
        code = status_of(leave.code)
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals is globals():
            frames = frames.tb_next  # the code does not see our own frames
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        code = 1
    # This waits for other threads, as the interpreter does; the stubs leave it out.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return finished(code)


def status_of(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def finished(code):
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        return code
    return code


with open(RULES, "rb") as rules:
    FILTER_TEXT = rules.read()
serve()
