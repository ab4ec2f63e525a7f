"""The languages that a guest runs, each where its tool is found and comes up inside of one."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.rewards.sandbox.bubblewrap import SYSTEM, NoSandbox, start
from apps.rewards.sandbox.limits import Limits

ASKED_S = 30.0  # that a tool may take to say where its files are
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
    """`path`: of the program; `homes`: the files and folders outside the system's that it reads."""

    path: str
    homes: tuple[str, ...]


def require(language: str = "python") -> Tool:
    """The tool of this language. Raises NoTool naming it, or NoSandbox when no guest comes up at all."""
    return _found(language)


@functools.cache
def _found(name: str) -> Tool:
    language = LANGUAGES[name]
    candidates = [Tool(path, needed(language, path)) for path in _paths(language)]
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
        asked = ["-S", "-s", "-c", "import json"] if language.name == "python" else ["--version"]
        return start([tool.path, *asked], limits, homes=tool.homes).status == 0
    except NoSandbox:  # its folder cannot be reached by the guest's user
        return False


def _paths(language: Language) -> Sequence[str]:
    """Python's: the one that runs us, where the guest's user can reach it, or the system's."""
    if language.name == "python":
        return [path for path in (os.path.realpath(sys.executable), "/usr/bin/python3") if Path(path).exists()]
    found = shutil.which(language.tool, path=os.pathsep.join((os.environ.get("PATH", ""), EVERYWHERE)))
    return [os.path.realpath(found) if not language.is_compiled else found] if found else []


def needed(language: Language, path: str) -> tuple[str, ...]:
    """Return exactly what the tool at this path reads and the system's folders do not have.

    Never a folder above it: that may be somebody's home.
    """
    found = [path]
    if language.name == "python":
        found += _of_python(path)
    elif language.is_compiled:
        found += _of_compiler(path)
    found += _libraries([path, *(str(each) for each in _extensions(found[1:]))])
    return tuple(each for each in dict.fromkeys(found) if not _is_of_system(each))


def _is_of_system(path: str) -> bool:
    is_below = path.startswith((*SYSTEM, "/lib", "/bin"))
    return is_below and Path(path).resolve().is_relative_to("/usr")


def _of_python(path: str) -> list[str]:
    """Its standard library, whose folders it knows itself."""
    asked = "from sysconfig import get_path as at; print(at('stdlib'), at('platstdlib'), sep='\\n')"
    return _said([path, "-I", "-S", "-c", asked]).splitlines()


def _of_compiler(path: str) -> list[str]:
    """Its own programs, headers and objects: folders of gcc's, none that it shares with others."""
    lines = _said([path, "-print-search-dirs"]).splitlines()
    folders = [part for line in lines for part in line.split(":")]
    folders = [os.path.normpath(part.strip().lstrip("=")) for part in folders if "/" in part]
    headers = Path(path).resolve().parent.parent / "include" / "c++"
    own = [folder for folder in folders if "gcc" in Path(folder).parts]
    return [folder for folder in (*own, str(headers)) if Path(folder).is_dir()]


def _extensions(folders: Sequence[str]) -> list[Path]:
    return [each for folder in folders for each in Path(folder, "lib-dynload").glob("*.so")]


def _libraries(programs: Sequence[str]) -> list[str]:
    """The shared libraries that these programs load, as the loader finds them."""
    words = _said(["/usr/bin/ldd", *programs]).split()
    return sorted({word for word in words if word.startswith("/") and not word.endswith(":")})


def _said(command: Sequence[str]) -> str:
    """What a tool of this machine says of itself; "" where it does not."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASKED_S,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
