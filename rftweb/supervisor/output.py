"""Output of child processes: prefixed on the terminal, and in a rotated file per role."""

import logging
import logging.handlers
import os
import re
import sys
from pathlib import Path
from typing import TextIO

COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
FILE_BYTES = 10 * 2**20
FILES_KEPT = 3
# A warning or error line of rftweb.logs (text or JSON) or of PostgreSQL.
TROUBLE = re.compile(
    r"\[(warning|error|critical)\s*\]"
    r"|\"level\": ?\"(warning|error|critical)\""
    r"|\b(FATAL|PANIC):(?!\s+(the database system is |terminating connection due to administrator))"
)


class Output:
    """Receives lines from the children and from the supervisor itself.

    `quiet`: of the children's lines only warnings and errors reach the terminal; the files have
    all.
    """

    def __init__(self, folder: Path, quiet: bool = False, terminal: TextIO | None = None) -> None:
        self.folder = folder
        self.quiet = quiet
        self.shown = True
        self.terminal = terminal or sys.stdout
        self.coloured = self.terminal.isatty() and "NO_COLOR" not in os.environ
        self.files: dict[str, logging.Logger] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def line(self, name: str, text: str) -> None:
        """Process one line that the child `name` has written."""
        self._file(name).info(text)
        if self.shown and (not self.quiet or TROUBLE.search(text)):
            self._print(name, text)

    def say(self, text: str) -> None:
        """Print one line of the supervisor itself; always shown."""
        self._file("supervisor").info(text)
        self._print("up", text)

    def close(self) -> None:
        for logger in self.files.values():
            for handler in logger.handlers:
                handler.close()

    def _print(self, name: str, text: str) -> None:
        prefix = f"{name:>10} │ "
        if self.coloured:
            prefix = f"\x1b[{self._colour(name)}m{prefix}\x1b[0m"
        try:
            print(prefix + text, file=self.terminal, flush=True)
        except (BrokenPipeError, ValueError):  # the terminal is closed; the files are still written
            self.shown = False
        except OSError:  # a file on a full disk, which may have room again for a later line
            pass

    def _colour(self, name: str) -> int:
        return COLOURS[sum(name.encode()) % len(COLOURS)]

    def _file(self, name: str) -> logging.Logger:
        if name not in self.files:
            path = self.folder / f"{name}.log"
            handler = logging.handlers.RotatingFileHandler(
                path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8"
            )
            self.files[name] = logging.Logger(name)
            self.files[name].addHandler(handler)
        return self.files[name]
