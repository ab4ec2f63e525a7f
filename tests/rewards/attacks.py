"""Programs that try to leave the sandbox, to outlive it, or to use too much of the machine.

Each is a sentence, a program, and the expected ending: words of its output, of its errors, or of
the reason why it was stopped, with " | " between alternatives. A program that succeeds writes
ESCAPED. PORT, PATH and NAME stand for a listener outside, CANARY for a file outside.
"""

from dataclasses import dataclass

SLOW = "it took too long"
MUCH = "it wrote too much"
MEMORY = "out of memory"
FILES = "it made too many files"


@dataclass(frozen=True)
class Attack:
    sentence: str
    language: str
    source: str
    told: str


PRELUDE = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(act):
    try:
        print("ESCAPED", act())
    except BaseException as error:
        print(type(error).__name__, error)
def asked(number, *arguments):
    given = libc.syscall(number, *arguments)
    print("ESCAPED" if given >= 0 else errno.errorcode[ctypes.get_errno()])
"""
SOCKET = "import socket\ntried(lambda: socket.socket(socket.{}, socket.{}).connect({}))"
PYTHON = [
    (
        "it reads the passwords of the machine",
        "tried(lambda: open('/etc/shadow').read())",
        "FileNotFoundError",
    ),
    (
        "it reads the users of the machine",
        "tried(lambda: open('/etc/passwd').read())",
        "FileNotFoundError",
    ),
    (
        "it reads the environment that started it",
        "print(sorted(os.environ))",
        "['LANG', 'PWD', 'PYTHONHASHSEED']",
    ),
    ("it reads a file of the project", "tried(lambda: open('CANARY').read())", "FileNotFoundError"),
    (
        "it writes to a file of the project",
        "tried(lambda: open('CANARY', 'w').write('x'))",
        "FileNotFoundError",
    ),
    (
        "it writes beside the interpreter's libraries",
        "tried(lambda: open('/usr/lib/mine.py', 'w'))",
        "Error",
    ),
    ("it writes to the root folder", "tried(lambda: open('/mine', 'w'))", "Read-only"),
    ("it changes its own program", "tried(lambda: open('/code/program.py', 'w'))", "Error"),
    (
        "it writes to shared memory's folder",
        "tried(lambda: open('/dev/shm/mine', 'w'))",
        "No such file",
    ),
    (
        "it connects by TCP",
        SOCKET.format("AF_INET", "SOCK_STREAM", "('127.0.0.1', PORT)"),
        "Operation not permitted",
    ),
    (
        "it sends by UDP",
        (
            "import socket\ntried(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x',"
            " ('127.0.0.1', PORT)))"
        ),
        "Operation not permitted",
    ),
    (
        "it connects to a socket in the file system",
        SOCKET.format("AF_UNIX", "SOCK_STREAM", "'PATH'"),
        "Operation not permitted",
    ),
    (
        "it connects to an abstract socket",
        SOCKET.format("AF_UNIX", "SOCK_STREAM", "'\\0NAME'"),
        "Operation not permitted",
    ),
    (
        "it asks the kernel over netlink",
        "import socket\ntried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))",
        "Operation not permitted",
    ),
    (
        "it looks up a name",
        (
            "import socket\ntried(lambda: socket.getaddrinfo('localhost', 80) and"
            " socket.create_connection(('localhost', 80)))"
        ),
        "rror",
    ),
    ("it forks", "tried(os.fork)", "BlockingIOError"),
    (
        "it forks again and again",
        "for _ in range(10_000):\n  try: os.fork()\n  except OSError: pass\nprint('alone')",
        "alone",
    ),
    (
        "it leaves an orphan by forking twice",
        "tried(lambda: os.fork() or os.setsid() or os.fork())",
        "BlockingIOError",
    ),
    (
        "it starts another program beside it",
        "import subprocess\ntried(lambda: subprocess.run(['/usr/bin/id']))",
        "BlockingIOError",
    ),
    (
        "it starts threads without end",
        (
            "import threading, time\ntried(lambda: [threading.Thread(target=time.sleep, args=(9,),"
            " daemon=True).start() for _ in range(99)])"
        ),
        "can't start new thread",
    ),
    (
        "it becomes another program",
        "os.execv('/usr/bin/sh', ['sh', '-c', 'while :; do :; done'])",
        SLOW,
    ),
    (
        "it runs a program with its owner's rights",
        "os.execv('/usr/bin/su', ['su', '-c', 'echo ESCAPED'])",
        "su:",
    ),
    ("it takes ten gigabytes", "tried(lambda: len(bytearray(10 << 30)))", "MemoryError"),
    (
        "it takes shared memory",
        "import mmap\ntried(lambda: [mmap.mmap(-1, 64 << 20) for _ in range(99)])",
        "Cannot allocate memory",
    ),
    (
        "it takes memory in a file without a name",
        "tried(lambda: os.memfd_create('mine'))",
        "Operation not permitted",
    ),
    ("it takes System V memory, which no limit counts", "asked(29, 0, 1 << 20, 0o1600)", "EPERM"),
    ("it locks memory", "print(libc.mlockall(3) and 'held')", "held"),
    (
        "it unpacks a bomb",
        (
            "import zlib\nbomb = zlib.compress(bytes(8 << 20))\ntried(lambda:"
            " [zlib.decompress(bomb) for _ in range(99)])"
        ),
        f"MemoryError | {MEMORY}",
    ),
    (
        "it uses shared memory",
        (
            "import mmap\nall = []\nwhile True:\n  all.append(mmap.mmap(-1, 1 << 20))\n"
            "  all[-1].write(bytes(1 << 20))"
        ),
        f"Cannot allocate memory | {MEMORY}",
    ),
    (
        "it makes files without end",
        "n = 0\nwhile True:\n  n += 1\n  os.close(os.open(f'/tmp/{n}', os.O_CREAT))",
        FILES,
    ),
    (
        "it makes links without end",
        "open('/tmp/a', 'w')\nn = 0\nwhile True:\n  n += 1\n  os.link('/tmp/a', f'/tmp/{n}')",
        FILES,
    ),
    (
        "it makes folders without end",
        "n = 0\nwhile True:\n  n += 1\n  os.mkdir(f'/tmp/{n}')",
        FILES,
    ),
    (
        "it locks ranges of a file",
        "import fcntl\ntried(lambda: [fcntl.lockf(open('/tmp/a', 'w'), fcntl.LOCK_EX)])",
        "Operation not permitted",
    ),
    ("it watches files", "asked(294, 0)", "EPERM"),
    ("it changes the processor's descriptors", "asked(154, 0, 0, 0)", "EPERM"),
    ("it never ends", "while True: pass", SLOW),
    (
        "it never ends and minds no signal",
        (
            "import signal\nfor one in (signal.SIGXCPU, signal.SIGTERM):\n  signal.signal(one, "
            "signal.SIG_IGN)\nwhile True: pass"
        ),
        SLOW,
    ),
    ("it sleeps", "import time\ntime.sleep(60)", SLOW),
    (
        "it closes everything and sleeps",
        "import time\nos.closerange(0, 1024)\ntime.sleep(60)",
        SLOW,
    ),
    ("it stops itself", "import signal\nos.kill(os.getpid(), signal.SIGSTOP)", SLOW),
    (
        "it raises its own limit of time",
        "import resource\ntried(lambda: resource.setrlimit(resource.RLIMIT_CPU, (999, 999)))",
        "Error",
    ),
    ("it writes without end", "while True: os.write(1, bytes(1 << 16))", MUCH),
    ("it writes errors without end", "while True: os.write(2, bytes(1 << 16))", SLOW),
    (
        "it writes to every descriptor it may have",
        (
            "def put(fd):\n  try: return os.write(fd, b'[{}]')\n  except OSError: return 0\n"
            "print(sum(map(put, range(3, 1024))), 'bytes')"
        ),
        "0 bytes",
    ),
    (
        "it opens files without end",
        "tried(lambda: [open('/dev/null') for _ in range(999)])",
        "Too many open files",
    ),
    (
        "it writes a large file",
        "tried(lambda: open('/tmp/a', 'wb').write(bytes(8 << 20)))",
        "Error",
    ),
    (
        "it fills its folder",
        "tried(lambda: [open(f'/tmp/{n}', 'wb').write(bytes(1 << 19)) for n in range(99)])",
        "No space left",
    ),
    ("it leaves its memory on the disk", "os.abort()", "status 134"),
    ("it kills everything that it can", "tried(lambda: os.kill(-1, 9))", "ProcessLookupError"),
    (
        "it kills the process that watches it",
        "os.kill(1, 9)\nos.kill(os.getppid(), 9)\nprint('still', os.getpid())",
        "still 2",
    ),
    (
        "it interrupts the process that watches it",
        (
            "import signal, time\nfor one in set(signal.Signals) - {signal.SIGKILL}:\n"
            "  os.kill(1, one)\ntime.sleep(0.1)\nprint('still', os.getpid())"
        ),
        "still 2",
    ),
    (
        "it keeps a capability",
        "print([libc.prctl(23, one, 0, 0, 0) for one in range(38)] == [0] * 38 and 'none')",
        "none",
    ),
    (
        "it takes capabilities",
        (
            "asked(126, ctypes.create_string_buffer(b'\\x22\\x05\\x08\\x20' + bytes(4)), "
            "ctypes.create_string_buffer(b'\\xff' * 24))"
        ),
        "EPERM",
    ),
    (
        "it lifts the filter of its system calls",
        "print(libc.prctl(22, 0, 0, 0, 0), libc.prctl(38, 0, 0, 0, 0))",
        "-1 -1",
    ),
    (
        "it looks for a descriptor that was left open",
        (
            "import stat\nfound = []\nfor one in range(3, 4096):\n"
            "  try: found.append(os.fstat(one))\n  except OSError: pass\nprint('open:', len(found))"
        ),
        "open: 0",
    ),
    ("it unmounts what is over its root", "asked(166, b'/tmp', 2)", "EPERM"),
    (
        "it looks at other processes",
        "print(os.listdir('/proc/self'), os.path.exists('/proc/1'))",
        "['fd'] False",
    ),
    (
        "it leaves its root by a link of the kernel's",
        "tried(lambda: os.listdir('/proc/self/root'))",
        "FileNotFoundError",
    ),
    (
        "it follows a link of its own",
        "os.symlink('/etc/shadow', '/tmp/a')\ntried(lambda: open('/tmp/a').read())",
        "FileNotFoundError",
    ),
    (
        "it climbs out of its folder",
        "tried(lambda: open('/tmp/../../../etc/shadow').read())",
        "FileNotFoundError",
    ),
    (
        "it links a program into its folder",
        "tried(lambda: os.link('/usr/bin/su', '/tmp/su'))",
        "Error",
    ),
    (
        "it makes a device",
        "import stat\ntried(lambda: os.mknod('/tmp/a', 0o600 | stat.S_IFBLK, os.makedev(254, 0)))",
        "PermissionError",
    ),
    (
        "it looks for devices",
        "print(sorted({'kvm', 'mem', 'sda', 'vda', 'fuse'} & set(os.listdir('/dev'))))",
        "[]",
    ),
    (
        "it puts keys into its terminal",
        "import fcntl, termios\ntried(lambda: fcntl.ioctl(0, termios.TIOCSTI, b'x'))",
        "Error",
    ),
    ("it becomes root", "tried(lambda: os.setuid(0))", "Invalid argument"),
    ("it makes a namespace of its own", "asked(272, 0x10000000)", "EPERM"),
    ("it makes a namespace by cloning", "asked(56, 0x10000000 | 17, 0, 0, 0, 0)", "EAGAIN"),
    (
        "it clones where a filter cannot look",
        "asked(435, ctypes.create_string_buffer(88), 88)",
        "ENOSYS",
    ),
    ("it mounts", "asked(165, b'none', b'/tmp', b'tmpfs', 0, 0)", "EPERM"),
    ("it moves its root", "tried(lambda: os.chroot('/tmp'))", "PermissionError"),
    ("it traces", "asked(101, 0, 0, 0, 0)", "EPERM"),
    ("it reads another process's memory", "asked(310, 1, 0, 0, 0, 0, 0)", "EPERM"),
    ("it takes another process's descriptors", "asked(434, 1, 0)", "EPERM"),
    ("it looks into the kernel's keyring", "asked(250, 0, -3, 1)", "EPERM"),
    ("it puts a key into the kernel's keyring", "asked(248, b'user', b'a', b'b', 1, -5)", "EPERM"),
    ("it loads a program into the kernel", "asked(321, 0, 0, 0)", "EPERM"),
    ("it opens a ring to the kernel", "asked(425, 8, ctypes.create_string_buffer(120))", "EPERM"),
    ("it handles the kernel's page faults", "asked(323, 0)", "EPERM"),
    (
        "it measures the machine",
        "asked(298, ctypes.create_string_buffer(120), 0, -1, -1, 0)",
        "EPERM",
    ),
    ("it calls by the numbers of another table", "asked(0x40000000 | 39)", "ENOSYS"),
    (
        "it sets the clock",
        "import time\ntried(lambda: time.clock_settime(time.CLOCK_REALTIME, 0))",
        "PermissionError",
    ),
    (
        "it renames the machine",
        "import socket\ntried(lambda: socket.sethostname('mine'))",
        "PermissionError",
    ),
    ("it takes precedence over others", "tried(lambda: os.nice(-20))", "PermissionError"),
    ("it recurses without end", "sys.setrecursionlimit(10**9)\ndef f(): f()\ntried(f)", ""),
    ("it computes a number without end", "print(len(str(9**9**9)))", SLOW),
    (
        "it makes a table of one hash",
        "table = {}\nfor n in range(10**7): table[n * (2**61 - 1)] = n",
        SLOW,
    ),
    ("it runs machine code", "ctypes.string_at(1)", "status 139"),
    (
        "it leaves work for after its end",
        "import atexit\natexit.register(lambda: [n for n in iter(int, 1) if n])",
        SLOW,
    ),
    (
        "it puts its own module before the library's",
        "open('/tmp/json.py', 'w').write('x')\nimport json\nprint('in')",
        "in",
    ),
]
JAVASCRIPT = [
    ("reads the passwords of the machine", "read('/etc/shadow')", "ENOENT"),
    (
        "reads the environment that started it",
        "console.log(Object.keys(process.env).sort().join())",
        "LANG,PWD,PYTHONHASHSEED",
    ),
    (
        "starts another program",
        "tried(() => require('child_process').execSync('/usr/bin/id'))",
        "EPERM",
    ),
    (
        "connects by TCP",
        (
            "require('net').connect(PORT, '127.0.0.1', () => console.log('ESCAPED')).on('error',"
            " (e) => console.log(e.code))"
        ),
        "EPERM",
    ),
    (
        "writes outside of its folder",
        "tried(() => require('fs').writeFileSync('/usr/mine', 'x'))",
        "E",
    ),
    (
        "kills the process that watches it",
        "process.kill(1, 'SIGKILL'); console.log('still', process.pid)",
        "still 2",
    ),
    (
        "takes memory without end",
        "const all = []; for (;;) all.push(Buffer.alloc(1 << 24, 1))",
        "status",
    ),
    ("never ends", "for (;;);", SLOW),
    ("waits for ever", "setInterval(() => 0, 1000)", SLOW),
    (
        "loads machine code",
        "tried(() => process.dlopen({ exports: {} }, '/tmp/none.node'))",
        "cannot open shared object",
    ),
    (
        "leaves its context",
        (
            "tried(() => eval.constructor('return"
            " process')().mainModule.require('fs').readFileSync('CANARY'))"
        ),
        "rror",
    ),
]
JS_PRELUDE = """
function tried(act) {
  try { console.log("ESCAPED", act()); } catch (error) { console.log(`${error}`); }
}
function read(path) { tried(() => require("fs").readFileSync(path, "utf8")); }
"""
C_PRELUDE = """#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { long given = -1; errno = 0;
"""
C = [
    ("forks", "given = fork();", "Resource temporarily unavailable"),
    (
        "forks by the kernel's own number",
        "given = syscall(SYS_fork);",
        "Resource temporarily unavailable",
    ),
    ("opens a socket", "given = socket(AF_INET, SOCK_STREAM, 0);", "Operation not permitted"),
    ("becomes root", "given = setuid(0);", "Invalid argument"),
    (
        "takes memory without end",
        "for (;;) { char *more = malloc(1 << 24); if (!more) break; memset(more, 1, 1 << 24); }",
        f"Cannot allocate | {MEMORY}",
    ),
    (
        "calls by the numbers of another processor",
        '__asm__ volatile ("int $0x80" : "=a"(given) : "a"(20));',
        "status 159",
    ),
    (
        "overruns its stack",
        "volatile char large[1 << 30]; large[0] = large[(1 << 30) - 1] = 1; given = large[0];",
        "status 139",
    ),
]
C_END = '\nif (given >= 0) puts("ESCAPED"); else puts(strerror(errno)); return 0; }\n'

ATTACKS = [
    *(Attack(sentence, "python", PRELUDE + source, told) for sentence, source, told in PYTHON),
    *(
        Attack(f"javascript {sentence}", "javascript", JS_PRELUDE + source, told)
        for sentence, source, told in JAVASCRIPT
    ),
    *(
        Attack(f"c {sentence}", "c", C_PRELUDE + source + C_END, told)
        for sentence, source, told in C
    ),
]
COMPILED_IN = {
    "the compiler reads the passwords": '#include "/etc/shadow"\nint main(void) {}',
    "the assembler reads the passwords": '__asm__(".incbin \\"/etc/shadow\\"");\nint main(void) {}',
    "the compiler reads a file of the project": '#include "CANARY"\nint main(void) {}',
}

# Replies with long repetitions, for which a careless pattern or loop needs quadratic time: no
# scorer may hang on one.
_RUNS = (
    *" ,\n\t10aAe(){}[]<>\\/=-+_^$#*`~'\".;:!?|&%@«é漢",
    "A ",
    "A  ",
    "1,",
    "1.",
    "1 ",
    "a ",
    "a,",
    "- ",
    "= ",
    "=-",
    "^{",
    "_{",
    "1/",
    "+H",
    "H2+",
    "(H",
    "x^",
    "&#",
    "no ",
    "and ",
    "answer ",
    "answer is ",
    "sqrt(",
    "\\frac{",
    "\\text{",
    "\\boxed{",
    "<a>",
    "</a>",
    "<answer>",
    "####",
    "```",
    "<svg>",
    "<div>",
    "[1,2,3,4]",
    "(1,2)",
    "\\\\[",
)
HOSTILE_REPLIES = {f"a run of {unit!r}": unit * (40_000 // len(unit)) for unit in _RUNS}
for _unit in _RUNS:
    _inside = _unit * (1_900 // len(_unit))
    HOSTILE_REPLIES[f"a box of {_unit!r}"] = f"\\boxed{{{_inside}!}}"
    HOSTILE_REPLIES[f"a tag of {_unit!r}"] = f"<answer>{_inside}!</answer>"
    HOSTILE_REPLIES[f"a line of {_unit!r}"] = f"The answer is {_inside[:580]}!"

# Code that keeps its compiler, its interpreter or the comparison of its output busy.
_BOMB = "template<int n> struct F { enum { v = F<n - 1>::v + F<n - 2>::v }; };\nint main() {}\n"
HOSTILE_CODE = {
    "a device that blocks": ("c", '#include "/dev/ptmx"\nint main(void) { return 0; }'),
    "a terminal": ("c", '#include "/dev/tty"\nint main(void) { return 0; }'),
    "an endless device": ("c", '#include "/dev/zero"\nint main(void) { return 0; }'),
    "its own text": ("c", '#include "/code/program"\nint main(void) { return 0; }'),
    "templates without an end": ("c++", _BOMB + "int x = F<9999>::v;"),
    "a large array": ("c", "char x[1 << 30] = {1};\nint main(void) { return x[0]; }"),
    "digits that are no number": ("python", "print('1' * 1_000_000 + 'x')"),
    "blanks": ("python", "print(' ' * 1_000_000 + '1')"),
    "lines of imports": ("javascript", "import \n" * 12_000),
    "blank lines": ("javascript", "\n" * 90_000),
    "a missing name": ("python", "print(x)"),
}
