"""Programs in a guest.

Run against an input, compiled in a guest of their own where the language needs it.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from apps.rewards.sandbox.bubblewrap import (
    THREAD_STACK_MB,
    TOO_SLOW,
    GuestResult,
    Streams,
    run_guest,
)
from apps.rewards.sandbox.languages import LANGUAGES, Language, NoTool, Tool, require_tool
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.python import PythonGuest

LIMITS = Limits(cpu_s=2, wall_s=6, threads=4, output_bytes=4 << 20)
COMPILING = Limits(
    cpu_s=20,
    wall_s=60,
    memory_mb=1024,
    processes=16,
    output_bytes=16 << 20,
    file_bytes=32 << 20,
    space_mb=64,
)
# The newest standard first: a text that only an older one takes is compiled by that.
STANDARDS = {"c": ("gnu17",), "c++": ("gnu++20", "gnu++17")}
SOURCE = "/code/program"
BINARY = "/code/binary"
STACKS = "/code/stacks"
# Bounded: each line may begin an import whose quotes never come.
MODULE = re.compile(r"^[^\S\n]*+(?:import\s[^('\"]{0,1000}+['\"]|export\s)", re.MULTILINE)
SHELL = "/usr/bin/sh"
# The first thread's stack may take all of the memory; others ask for one of this size when they
# start.
THREAD_STACK = """#include <pthread.h>
static void __attribute__((constructor)) smaller_stacks_of_threads(void) {
  pthread_attr_t wanted;
  if (pthread_attr_init(&wanted)) return;
  if (!pthread_attr_setstacksize(&wanted, 16 << 20)) pthread_setattr_default_np(&wanted);
  pthread_attr_destroy(&wanted);
}
"""


class DoesNotCompile(Exception):
    """Raised when the compiler refuses a program; the message is the beginning of its output."""


class Program(Protocol):
    """Program that runs against an input, each time in a fresh guest that sees no other."""

    def run(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        """Run the program against an input. Raises NoSandbox."""


@dataclass(frozen=True)
class PythonProgram:
    """A program in Python."""

    guest: PythonGuest

    def run(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        return self.guest.run(limits, Streams(stdin))

    def run_alone(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        """Return the same in a guest that is not forked from a server."""
        return self.guest.run_alone(limits, Streams(stdin))


@dataclass(frozen=True)
class CommandProgram:
    """A program that an interpreter runs.

    Its command inside of a guest, and the files that the guest is given.
    """

    language: Language
    command: tuple[str, ...]
    files: Mapping[str, bytes]
    homes: tuple[str, ...] = field(default=())

    def run(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        kind = self.language
        threads = max(limits.threads, kind.threads)
        program_limits = replace(limits, reserved_mb=kind.reserved_mb, threads=threads)
        return run_guest(self.command, program_limits, Streams(stdin), self.files, self.homes)


@dataclass(frozen=True)
class BinaryProgram:
    """A compiled program."""

    binary: bytes

    def run(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        guest = PythonGuest("binary", {"binary": self.binary})
        return guest.run_forked(limits, Streams(stdin)) or self.run_alone(stdin, limits)

    def run_alone(self, stdin: bytes, limits: Limits = LIMITS) -> GuestResult:
        """Return the same in a guest that is not forked from a server."""
        return run_guest((BINARY,), limits.deep, Streams(stdin), {BINARY: self.binary})


def prepare_program(
    source: str, language: str, memory_mb: int = LIMITS.memory_mb, has_prelude: bool = False
) -> Program:
    """Make the source a program.

    `has_prelude`: Python knows the names of prelude.py without an import.

    Raises DoesNotCompile, NoTool naming what is missing, NoSandbox when no guest comes up.
    """
    kind = LANGUAGES[language]
    tool = require_tool(language)
    text = source.encode(errors="replace")
    if kind.is_compiled:
        _require_working(kind, tool)
        return BinaryProgram(_compiled(text, kind, tool))
    if language == "python":
        return PythonProgram(PythonGuest("program", {"program.py": text}, has_prelude))
    path = f"{SOURCE}.mjs" if MODULE.search(source) else f"{SOURCE}.cjs"
    return CommandProgram(kind, (*node(tool, memory_mb), path), {path: text}, tool.homes)


def node(tool: Tool, memory_mb: int) -> tuple[str, ...]:
    """Return the command that runs JavaScript with so much memory and its largest stack."""
    stack_kb = min(memory_mb // 2, THREAD_STACK_MB) * 1024 * 7 // 8
    space = f"--max-old-space-size={memory_mb * 3 // 4}"
    return (tool.path, "--v8-pool-size=1", space, f"--stack-size={stack_kb}")


@functools.cache
def _require_working(language: Language, tool: Tool) -> None:
    """Refuse a compiler that compiles nothing: a missing linker is no program's fault.

    Raises NoTool.
    """
    try:
        _compiled(b"#include <stdlib.h>\nint main(void) { return abs(0); }\n", language, tool)
    except DoesNotCompile as why:
        raise NoTool(
            f"{language.tool} cannot compile in the sandbox, so {language.name} is "
            f"unavailable ({str(why)[:100]})"
        ) from None


def prepare_script(
    script: str, language: str, files: Mapping[str, bytes], homes: Sequence[str] = ()
) -> Program:
    """Make what this script of the shell, whose $0 is the compiler, makes of the files.

    `homes`: folders that it needs besides.

    Raises DoesNotCompile, NoTool, NoSandbox.
    """
    kind = LANGUAGES[language]
    tool = require_tool(language)
    _require_working(kind, tool)
    whole = replace(tool, homes=tuple(dict.fromkeys((*tool.homes, *homes))))
    return BinaryProgram(_compile_binary(script, whole, files))


def _compiled(source: bytes, language: Language, tool: Tool) -> bytes:
    tries = [_compiling(language, standard) for standard in STANDARDS[language.name]]
    return _compile_binary(
        first_command(tries), tool, {SOURCE: source, STACKS: THREAD_STACK.encode()}
    )


def _compiling(language: Language, standard: str) -> str:
    source = f"-std={standard} -x {language.name} {SOURCE}"
    return f'"$0" -O2 -pipe -pthread {source} {stack_options(language.name)} -o /tmp/binary -lm'


def stack_options(language: str) -> str:
    """Return the compiler arguments that add our code for the stacks of threads."""
    return f"-x {language} {STACKS} -x none"


def first_command(commands: Sequence[str]) -> str:
    """Return a command of the shell: the first of these that succeeds.

    If none does, it prints the errors of the first.
    """
    if len(commands) == 1:
        return commands[0]
    fallbacks = " || ".join(f"{command} 2>/dev/null" for command in commands[1:])
    return f"{commands[0]} 2>/tmp/errors || {fallbacks} || {{ cat /tmp/errors >&2; exit 1; }}"


def _compile_binary(script: str, tool: Tool, files: Mapping[str, bytes]) -> bytes:
    """Return the program's binary, which the compiler's guest wrote to its answer.

    It is as untrusted as the source.
    """
    whole = f"PATH=/usr/bin; export PATH; ({script}) && exec cat /tmp/binary"
    guest_result = run_guest(
        (SHELL, "-c", whole, tool.path), COMPILING, files=files, homes=tool.homes
    )
    if (
        guest_result.stopped == TOO_SLOW
    ):  # nothing in a guest blocks: the source keeps the compiler busy
        raise DoesNotCompile(f"compilation took longer than {COMPILING.cpu_s:g} s")
    if guest_result.status != 0:
        raise DoesNotCompile(
            guest_result.stopped
            or guest_result.stderr.decode(errors="replace")[:1000]
            or f"the compiler ended with {guest_result.status}"
        )
    return guest_result.stdout
