"""Where plugins are found: files of a folder, and entry points of installed packages.

Files are parsed to tell their kind, not imported: a plugin of one kind may need libraries that a
process which looks for another kind has not.
"""

import ast
import importlib
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

from apps.plugins.kinds import Kind, Refused

PACKAGE = "rftweb_plugins"  # the package that files of the folder are modules of
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
FOLDER = "the plugins folder"


@dataclass(frozen=True)
class Source:
    """Plugin that was found: its kind ("" where it cannot be told), name, and where it is from.

    `load` returns its module; it raises Refused, or whatever the plugin's own code raises.
    """

    kind: str
    name: str
    origin: str
    load: Callable[[], ModuleType]


def open_folder(folder: Path) -> None:
    """Make the folder's files importable as modules of PACKAGE, in place of another folder's."""
    forget_modules()
    package = ModuleType(PACKAGE, "Plugins in the installation's folder.")
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    importlib.invalidate_caches()


def forget_modules() -> None:
    for name in list(sys.modules):  # a copy: other threads import meanwhile
        if name.partition(".")[0] == PACKAGE:
            sys.modules.pop(name, None)


def why_not_safe(folder: Path) -> str:
    """Return why code of the folder is not run: others can write there; "" if nobody can.

    What several plugins share (files whose names begin with `_`) counts as the folder itself.
    """
    if not folder.is_dir():
        return "is no folder" if folder.exists() else "does not exist"
    for parent in (folder, *folder.parents):
        if why := _writable_by_all(parent):
            return why
    plugins = {path for _, path in plugin_files(folder)}
    shared = [path for path in sorted(folder.iterdir()) if path not in plugins]
    code = [path for path in shared if path.name.startswith("_")]
    return next((why for path in code if (why := _why_not_safe(path))), "")


def _writable_by_all(path: Path) -> str:
    """Return in words that everybody may write to a path; "" if not.

    In a sticky folder nobody can replace what others have. Pages show the words: no whole path.
    """
    mode = path.stat().st_mode
    if not mode & stat.S_IWOTH or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return ""
    name = path.name or str(path)
    return f"{name!r} is writable by everybody, who could then run code here: run chmod o-w on it"


def _why_not_safe(path: Path) -> str:
    inside = [path]
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            inside += [Path(folder, name) for name in (*folders, *files)]
    return next((why for part in inside if part.exists() and (why := _writable_by_all(part))), "")


def plugin_files(folder: Path, files: Collection[str] = ()) -> Iterator[tuple[str, Path]]:
    """Yield the name and file of each plugin: each *.py file, each package, each folder of a kind.

    `files` are the modules by which such folders are told. Names that begin with `_` or `test_` are
    no plugins, nor is conftest.
    """
    for path in sorted(folder.iterdir()):
        is_package = any((path / name).is_file() for name in ("__init__.py", *files))
        if not is_package and path.suffix != ".py":
            continue
        name = path.name if is_package else path.stem
        if not name.startswith(("_", "test_", ".")) and name != "conftest":
            yield name, path


def of_folder(folder: Path, kinds: Mapping[str, Kind]) -> Iterator[Source]:
    """Yield the plugins of a folder that is open and safe."""
    files = {kind.file: kind.name for kind in kinds.values() if kind.file}
    names: set[str] = set()
    for name, path in plugin_files(folder, files):
        own_file = next((file for file in files if (path / file).is_file()), "")
        try:
            if not NAME.fullmatch(name):
                raise Refused(
                    "its name must start with a lowercase letter and contain only lowercase "
                    "letters, digits and _"
                )
            if name in names:  # Python imports the folder, which comes first, in place of the file
                raise Refused("a folder has the same name: rename one of them")
            names.add(name)
            if why := _why_not_safe(path):
                raise Refused(why)
            if own_file:
                kind = files[own_file]
            else:
                kind = kind_of_file(path / "__init__.py" if path.is_dir() else path, kinds)
        except Refused as refused:
            yield Source("", _printable_name(name), FOLDER, _refusing(str(refused)))
        else:
            module = f"{name}.{own_file.removesuffix('.py')}" if own_file else name
            yield Source(kind, name, FOLDER, _importing(module))


def _printable_name(name: str) -> str:
    """Return a file's name without the bytes that are not UTF-8, which no text can have."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _importing(name: str) -> Callable[[], ModuleType]:
    return lambda: importlib.import_module(f"{PACKAGE}.{name}")


def _refusing(why: str) -> Callable[[], ModuleType]:
    def load() -> ModuleType:
        raise Refused(why)

    return load


def kind_of_file(path: Path, kinds: Mapping[str, Kind]) -> str:
    """Return the kind of the plugin in a file, by the functions that it defines. Raises Refused."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"cannot be read: {type(error).__name__}: {error}") from None
    defined = {name for node in tree.body for name in _defined_by(node)}
    matching = [kind for kind in kinds.values() if defined & set(kind.functions)]
    if len(matching) == 1:
        return matching[0].name
    if matching:
        raise Refused(
            f"is a {' and a '.join(kind.title for kind in matching)}: make a file of each"
        )
    expected = "; ".join(
        f"{kind.title}: {' or '.join(kind.functions)}" for kind in kinds.values() if kind.functions
    )
    raise Refused(f"defines no function of a plugin ({expected})")


def _defined_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign():
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        case ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in node.names)


def of_packages(kind: Kind) -> Iterator[Source]:
    """Yield the plugins of this kind that installed packages offer."""
    points = metadata.entry_points(group=kind.group)
    for point in sorted(points, key=lambda point: point.name):
        package = point.dist
        origin = f"the package {package.name} {package.version}" if package else "a package"
        yield Source(kind.name, point.name, origin, _loading(point))


def _loading(point: metadata.EntryPoint) -> Callable[[], ModuleType]:
    def load() -> ModuleType:
        if not NAME.fullmatch(point.name):
            raise Refused("its name must contain only lowercase letters, digits and _")
        module = point.load()
        if not isinstance(module, ModuleType):
            raise Refused(f"its entry point {point.value!r} is not a module")
        return module

    return load
