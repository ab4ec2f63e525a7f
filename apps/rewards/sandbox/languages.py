"""The languages that a guest runs, each where its tool is found and comes up inside of one."""

import functools
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.rewards.sandbox.bubblewrap import NoSandbox, start
from apps.rewards.sandbox.limits import Limits

EVERYWHERE = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))  # looked through after our own path


class NoTool(NoSandbox):
    """The language's interpreter or compiler is not here, or does not come up in a guest; the message names it."""


@dataclass(frozen=True)
class Language:
    """`tool`: the program that runs or compiles it; `fences`: what a code block in this language is called.

    `reserved_mb`, `threads`: what the tool itself takes, beside the program.
    """

    name: str
    tool: str
    fences: tuple[str, ...]
    is_compiled: bool = False
    reserved_mb: int = 0
    threads: int = 0


LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "python3", ("python", "py", "python3")),
        Language("javascript", "node", ("javascript", "js", "node", "mjs"), reserved_mb=1024, threads=16),
        Language("c", "gcc", ("c",), is_compiled=True),
        Language("c++", "g++", ("c++", "cpp", "cc", "cxx"), is_compiled=True),
    )
}


def by_fence(word: str) -> Language | None:
    """The language that a code block of this name is in."""
    return next((language for language in LANGUAGES.values() if word.lower() in language.fences), None)


@dataclass(frozen=True)
class Tool:
    """`path`: of the program; `homes`: folders outside the system's that it lives in."""

    path: str
    homes: tuple[str, ...]


def require(language: str = "python") -> Tool:
    """The tool of this language. Raises NoTool naming it, or NoSandbox when no guest comes up at all."""
    return _found(language)


@functools.cache
def _found(name: str) -> Tool:
    language = LANGUAGES[name]
    candidates = [Tool(path, _homes(path)) for path in _paths(language)]
    if not candidates:
        raise NoTool(f"no {language.tool} on this machine: {name} is not run")
    start(["/usr/bin/true"], Limits())  # whether any guest comes up
    for tool in candidates:
        if _comes_up(language, tool):
            return tool
    raise NoTool(f"{language.tool} does not come up in the sandbox: {name} is not run")


def _comes_up(language: Language, tool: Tool) -> bool:
    try:
        limits = Limits(reserved_mb=language.reserved_mb, threads=language.threads)
        return start([tool.path, "--version"], limits, homes=tool.homes).status == 0
    except NoSandbox:  # its folder cannot be reached by the guest's user
        return False


def _paths(language: Language) -> Sequence[str]:
    """Python's: the one that runs us, where the guest's user can reach it, or the system's."""
    if language.name == "python":
        return [path for path in (os.path.realpath(sys.executable), "/usr/bin/python3") if Path(path).exists()]
    found = shutil.which(language.tool, path=os.pathsep.join((os.environ.get("PATH", ""), EVERYWHERE)))
    return [os.path.realpath(found) if not language.is_compiled else found] if found else []


def _homes(path: str) -> tuple[str, ...]:
    home = str(Path(path).parent.parent)
    return () if home == "/usr" else (home,)
