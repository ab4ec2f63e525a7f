"""All parts that others may add, by kind and name: built-in ones, and plugins.

A plugin that cannot be used is refused with a reason, and nothing else suffers. Files are read when
a process first asks; a changed plugin is seen after a restart.
"""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.plugins import sources
from apps.plugins.kinds import Kind, Refused
from apps.plugins.loading import LoadingLock, printable
from apps.plugins.sources import FOLDER, Source

BUILT_IN = "built-in"
SETTING = "RFTWEB_PLUGINS"


@dataclass(frozen=True)
class Entry:
    """One part, usable or refused. `kind` is "" and `version` 0 if they are unknown."""

    kind: str
    name: str
    origin: str
    version: int = 0
    refused: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.name}".strip()

    @property
    def state(self) -> str:
        return "refused" if self.refused else "ready"


def _nothing() -> None:
    """Import no kinds: this process has imported all that it uses."""


class Registry:
    """Parts of this process; loads each once. Several threads may ask."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._folder: Path | None = None
        self._lock = LoadingLock()
        self._import_kinds: Callable[[], None] = _nothing
        self._forget()

    def _forget(self) -> None:
        self._folder_refused = ""
        self._sources: list[Source] | None = None
        self._loaded: dict[tuple[str, str], Any] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def register(self, kind: Kind) -> None:
        with self._lock:
            self._kinds[kind.name] = kind
            self._forget()

    def use(self, folder: Path | None) -> None:
        """Take the plugins of this folder, None for no folder; what was loaded is forgotten."""
        with self._lock:
            self._folder = folder
            self._forget()
            sources.forget_modules()

    def complete_with(self, import_kinds: Callable[[], None]) -> None:
        """Set what imports all kinds, for those who ask about plugins of every kind."""
        self._import_kinds = import_kinds

    @property
    def folder(self) -> Path | None:
        return self._folder

    def _kind(self, name: str) -> Kind:
        """Return the kind; imports all kinds if this one is not known yet."""
        if name not in self._kinds:
            self._import_kinds()
        return self._kinds[name]

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of all parts of this kind that can be used, sorted.

        Plugins are imported for it; built-in parts are not: some load large libraries.
        """
        if (cached := self._names.get(kind)) is not None:
            return cached
        with self._lock:
            ours = self._kind(kind).built_in()
            plugin_names = [
                source.name for source in self._plugins(kind) if not self._why_refused(source)
            ]
            return self._names.setdefault(kind, tuple(sorted({*ours, *plugin_names})))

    def find(self, kind: str, name: str) -> Any:
        """Return the part; raises LookupError with why it is refused, or the nearest name."""
        with self._lock:
            if (kind, name) in self._loaded:
                return self._loaded[kind, name]
            ours = self._kind(kind).built_in()
            if name in ours:
                return self._loaded.setdefault((kind, name), ours[name]())
            matching = [
                source
                for source in self._load_sources()
                if source.name == name and source.kind in (kind, "")
            ]
            refused = [(source, why) for source in matching if (why := self._why_refused(source))]
            if (kind, name) in self._loaded:
                return self._loaded[kind, name]
            for source, why in refused:
                title = self._kind(kind).title
                raise LookupError(f"the {title} {name!r} of {source.origin} is refused: {why}")
            raise LookupError(self._unknown(kind, name))

    def _unknown(self, kind: str, name: str) -> str:
        names = self.names(kind)
        near = difflib.get_close_matches(name, names, n=1)
        listing = f"known: {', '.join(names)}" if names else "none is installed"
        hint = f"did you mean {near[0]!r}?" if near else listing
        if self._folder_refused:
            hint += f" ({FOLDER} is refused: {self._folder_refused})"
        return f"no {self._kind(kind).title} {name!r}; {hint}"

    def plugins(self) -> list[Entry]:
        """Return the plugins of all kinds, and what was refused, the folder itself included."""
        self._import_kinds()
        with self._lock:
            entries = [self._entry(source) for source in self._load_sources()]
            if self._folder_refused:
                entries.insert(0, Entry("", SETTING, FOLDER, refused=self._folder_refused))
            return entries

    def entries(self) -> list[Entry]:
        """Return everything: built-in parts, which it loads, then plugins."""
        self._import_kinds()
        ours = [
            Entry(kind.name, name, BUILT_IN, kind.version(self.find(kind.name, name)))
            for kind in self._kinds.values()
            for name in sorted(kind.built_in())
        ]
        return ours + self.plugins()

    def _plugins(self, kind: str) -> Iterator[Source]:
        return (source for source in self._load_sources() if source.kind == kind)

    def _load_sources(self) -> list[Source]:
        if self._sources is None:
            from_packages = [
                source for kind in self._kinds.values() for source in sources.of_packages(kind)
            ]
            self._sources = [*from_packages, *self._of_folder()]
        return self._sources

    def _of_folder(self) -> list[Source]:
        if self._folder is None:
            return []
        try:
            if why := sources.why_not_safe(self._folder):
                self._folder_refused = self._in_words(why)
                return []
            sources.open_folder(self._folder)
            return list(sources.of_folder(self._folder, self._kinds))
        except OSError as error:
            self._folder_refused = self._in_words(f"{type(error).__name__}: {error}")
            return []

    def _entry(self, source: Source) -> Entry:
        why = self._why_refused(source)
        if why:
            return Entry(source.kind, source.name, source.origin, refused=why)
        version = self._kinds[source.kind].version(self._loaded[source.kind, source.name])
        return Entry(source.kind, source.name, source.origin, version)

    def _why_refused(self, source: Source) -> str:
        """Load the plugin once; return why it cannot be used, "" if it can."""
        key = (source.name, f"{source.kind} of {source.origin}")
        if key not in self._refused:
            self._refused[key] = self._in_words(self._try_source(source))
        return self._refused[key]

    def _try_source(self, source: Source) -> str:
        kind = self._kinds.get(source.kind)  # None: a file of no kind, which its load refuses
        try:
            if kind and source.name in kind.built_in():
                raise Refused(f"a built-in {kind.title} has this name: rename the plugin")
            if kind and (kind.name, source.name) in self._loaded:
                raise Refused(f"another {kind.title} plugin has this name: rename one of them")
            self._loaded[source.kind, source.name] = self._lock.load(lambda: self._read(source))
        except Refused as refused:
            return str(refused)
        return ""

    def _read(self, source: Source) -> Any:
        module = source.load()
        return self._kinds[source.kind].read(module, source.name)

    def _in_words(self, text: str) -> str:
        """Return the text without the path of the plugins folder, which pages do not tell."""
        if self._folder is not None:
            text = text.replace(f"{self._folder}/", "").replace(str(self._folder), FOLDER)
        return printable(text)


REGISTRY = Registry()
