"""Programs in a guest: run against an input, compiled in a guest of their own where the language needs it."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.rewards.sandbox.bubblewrap import TOO_SLOW, Ended, start
from apps.rewards.sandbox.languages import LANGUAGES, Language, NoTool, Tool, require
from apps.rewards.sandbox.limits import Limits

STARTER = Path(__file__).with_name("starter.py")
LIMITS = Limits(cpu_s=2, wall_s=6, threads=4, output_bytes=4 << 20)
COMPILING = Limits(cpu_s=20, wall_s=60, memory_mb=1024, processes=16, output_bytes=16 << 20, file_bytes=32 << 20, space_mb=64)
COMPILERS = {"c": ("-std=gnu17", "-x", "c"), "c++": ("-std=gnu++17", "-x", "c++")}
SOURCE, BINARY = "/code/program", "/code/binary"
# Bounded: each line may begin an import whose quotes never come.
MODULE = re.compile(r"^[^\S\n]*+(?:import\s[^('\"]{0,1000}+['\"]|export\s)", re.MULTILINE)
SHELL = "/usr/bin/sh"


class DoesNotCompile(Exception):
    """The compiler refused it; the message is the beginning of what it said."""


@dataclass(frozen=True)
class Program:
    """What runs: its command inside of a guest, and the files that the guest is given."""

    language: Language
    command: tuple[str, ...]
    files: Mapping[str, bytes]
    homes: tuple[str, ...] = field(default=())

    def run(self, stdin: bytes, limits: Limits = LIMITS) -> Ended:
        """A fresh guest that sees the program and this input. Raises NoSandbox."""
        own = replace(limits, reserved_mb=self.language.reserved_mb, threads=max(limits.threads, self.language.threads))
        return start(self.command, own, stdin, self.files, self.homes)


def prepare(source: str, language: str, memory_mb: int = LIMITS.memory_mb) -> Program:
    """Raises DoesNotCompile, NoTool naming what is missing, NoSandbox when no guest comes up."""
    kind, tool, text = LANGUAGES[language], require(language), source.encode(errors="replace")
    if kind.is_compiled:
        _require_working(kind, tool)
        return Program(kind, (BINARY,), {BINARY: _compiled(text, kind, tool)})
    if language == "python":
        path = f"{SOURCE}.py"
        command = (tool.path, "-S", "-s", "-B", "-c", STARTER.read_text(), path)
    else:
        path = f"{SOURCE}.mjs" if MODULE.search(source) else f"{SOURCE}.cjs"
        command = (*node(tool, memory_mb), path)
    return Program(kind, command, {path: text}, tool.homes)


def node(tool: Tool, memory_mb: int) -> tuple[str, ...]:
    return (tool.path, "--v8-pool-size=1", f"--max-old-space-size={memory_mb * 3 // 4}", "--stack-size=3900")


@functools.cache
def _require_working(language: Language, tool: Tool) -> None:
    """A compiler without its linker or headers must not be taken for a program that does not compile. Raises NoTool."""
    try:
        _compiled(b"#include <stdlib.h>\nint main(void) { return abs(0); }\n", language, tool)
    except DoesNotCompile as why:
        raise NoTool(f"{language.tool} compiles nothing in the sandbox: {language.name} is not run ({str(why)[:100]})") from None


def prepare_script(script: str, language: str, files: Mapping[str, bytes], homes: Sequence[str] = ()) -> Program:
    """What this script of the shell, whose $0 is the compiler, makes of the files. `homes`: folders that it needs besides.

    Raises DoesNotCompile, NoTool, NoSandbox.
    """
    kind, tool = LANGUAGES[language], require(language)
    _require_working(kind, tool)
    whole = replace(tool, homes=tuple(dict.fromkeys((*tool.homes, *homes))))
    return Program(kind, (BINARY,), {BINARY: _made(script, whole, files)})


def _compiled(source: bytes, language: Language, tool: Tool) -> bytes:
    flags = " ".join(("-O2", "-pipe", *COMPILERS[language.name]))
    return _made(f'exec "$0" {flags} {SOURCE} -o /tmp/binary -lm', tool, {SOURCE: source})


def _made(script: str, tool: Tool, files: Mapping[str, bytes]) -> bytes:
    """The program's binary, which the compiler's guest wrote to its answer: what is in it is as hostile as the source."""
    whole = f"PATH=/usr/bin; export PATH; ({script}) && exec cat /tmp/binary"
    ended = start((SHELL, "-c", whole, tool.path), COMPILING, files=files, homes=tool.homes)
    if ended.stopped == TOO_SLOW:  # nothing in a guest blocks: the source keeps the compiler busy
        raise DoesNotCompile(f"the compiler did not end within {COMPILING.cpu_s:g} s")
    if ended.status != 0:
        raise DoesNotCompile(
            ended.stopped or ended.stderr.decode(errors="replace")[:1000] or f"the compiler ended with {ended.status}"
        )
    return ended.stdout
