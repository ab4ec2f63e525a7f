"""The languages that a guest runs, each where its tool is found and comes up inside of one."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.rewards.sandbox.bubblewrap import SYSTEM, NoSandbox, run_guest
from apps.rewards.sandbox.limits import Limits

TOOL_REPLY_S = 30.0  # that a tool may take to say where its files are
EVERYWHERE = os.pathsep.join(
    ("/usr/local/bin", "/usr/bin", "/bin")
)  # looked through after our own path


class NoTool(NoSandbox):
    """Raised if a language's tool is missing, or does not start in a guest; names it."""


@dataclass(frozen=True)
class Language:
    """Programming language; `tool`: its interpreter or compiler, `fences`: code block names.

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
        Language("python", "python3", ("python", "py", "pypy", "ipython", "jupyter")),
        Language(
            "javascript",
            "node",
            ("javascript", "js", "node", "nodejs", "mjs", "cjs"),
            reserved_mb=1024,
            threads=16,
        ),
        Language("c", "gcc", ("c",), is_compiled=True),
        Language("c++", "g++", ("c++", "cpp", "cc", "cxx"), is_compiled=True),
    )
}


def by_fence(word: str) -> Language | None:
    """Return the language that a code block of this name is in; a version in it, as in py3,
    counts for nothing.
    """
    plain = word.lower().rstrip("0123456789.")
    return next((language for language in LANGUAGES.values() if plain in language.fences), None)


@dataclass(frozen=True)
class Tool:
    """Interpreter or compiler. `homes` are the folders that it reads outside the system's."""

    path: str
    homes: tuple[str, ...]


def require_tool(language: str = "python") -> Tool:
    """Return the tool of this language.

    Raises NoTool naming it, or NoSandbox when no guest comes up at all.
    """
    return _find_tool(language)


@functools.cache
def _find_tool(name: str) -> Tool:
    language = LANGUAGES[name]
    candidates = [Tool(path, required_files(language, path)) for path in _paths(language)]
    if not candidates:
        raise NoTool(f"{language.tool} is not installed on this machine, so {name} is unavailable")
    run_guest(["/usr/bin/true"], Limits())  # whether any guest comes up
    for tool in candidates:
        if _can_start(language, tool):
            return tool
    raise NoTool(f"{language.tool} does not start in the sandbox, so {name} is unavailable")


def _can_start(language: Language, tool: Tool) -> bool:
    try:
        limits = Limits(reserved_mb=language.reserved_mb, threads=language.threads)
        arguments = (
            ["-S", "-s", "-c", "import json"] if language.name == "python" else ["--version"]
        )
        return run_guest([tool.path, *arguments], limits, homes=tool.homes).status == 0
    except NoSandbox:  # its folder cannot be reached by the guest's user
        return False


def _paths(language: Language) -> Sequence[str]:
    """Return the candidate paths of a language's tool; for Python our own, then the system's.

    The guest's user may be unable to reach our own.
    """
    if language.name == "python":
        return [
            path
            for path in (os.path.realpath(sys.executable), "/usr/bin/python3")
            if Path(path).exists()
        ]
    path_of_tool = shutil.which(
        language.tool, path=os.pathsep.join((os.environ.get("PATH", ""), EVERYWHERE))
    )
    return (
        [os.path.realpath(path_of_tool) if not language.is_compiled else path_of_tool]
        if path_of_tool
        else []
    )


def required_files(language: Language, path: str) -> tuple[str, ...]:
    """Return exactly the files that the tool at this path reads outside the system's folders.

    A folder above it is never returned, because that may be somebody's home.
    """
    paths = [path]
    if language.name == "python":
        paths += _of_python(path)
    elif language.is_compiled:
        paths += _of_compiler(path)
    paths += _libraries([path, *(str(extension) for extension in _extensions(paths[1:]))])
    return tuple(required for required in dict.fromkeys(paths) if not _is_of_system(required))


def _is_of_system(path: str) -> bool:
    is_below = path.startswith((*SYSTEM, "/lib", "/bin"))
    return is_below and Path(path).resolve().is_relative_to("/usr")


def _of_python(path: str) -> list[str]:
    """Return the folders of Python's standard library, as the interpreter reports them."""
    program = (
        "from sysconfig import get_path as at; print(at('stdlib'), at('platstdlib'), sep='\\n')"
    )
    return _run_tool([path, "-I", "-S", "-c", program]).splitlines()


def _of_compiler(path: str) -> list[str]:
    """Return the folders of gcc's own programs, headers and objects, none of which others share."""
    lines = _run_tool([path, "-print-search-dirs"]).splitlines()
    folders = [part for line in lines for part in line.split(":")]
    folders = [os.path.normpath(part.strip().lstrip("=")) for part in folders if "/" in part]
    headers = Path(path).resolve().parent.parent / "include" / "c++"
    gcc_folders = [folder for folder in folders if "gcc" in Path(folder).parts]
    return [folder for folder in (*gcc_folders, str(headers)) if Path(folder).is_dir()]


def _extensions(folders: Sequence[str]) -> list[Path]:
    return [
        extension for folder in folders for extension in Path(folder, "lib-dynload").glob("*.so")
    ]


def _libraries(programs: Sequence[str]) -> list[str]:
    """Return the shared libraries that these programs load, as the loader finds them."""
    words = _run_tool(["/usr/bin/ldd", *programs]).split()
    return sorted({word for word in words if word.startswith("/") and not word.endswith(":")})


def _run_tool(command: Sequence[str]) -> str:
    """Return what a tool of this machine prints; "" if it cannot be run."""
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_REPLY_S,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout
