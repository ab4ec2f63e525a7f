"""Remove the paths at which this installation stores files from texts that users see.

Errors of the operating system and of libraries quote absolute paths. A file is named relative to
the upload, policy or source tree that it belongs to, or else by its last name.
"""

import re
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import models

REST = r"(?P<rest>(?:/[^\s'\"<>|:;,)\]}]*)?)"
NAMELESS = "a file of the server"


def public_text(error: object, names: Mapping[Path, str] | None = None) -> str:
    """Return the error's text, with short names in place of absolute paths of this machine.

    `names` maps some files and folders to names. A file in such a folder is named relative to it.
    """
    text = str(error)
    if "/" not in text:
        return text
    for path, name in (names or {}).items():
        inside = re.escape(str(path))
        text = re.sub(rf"{inside}/(?=[^\s'\"])", "", text)
        text = re.sub(rf"{inside}(?![\w.-])", name.replace("\\", r"\\"), text)
    return _pattern(_roots()).sub(_short, text)


class ReasonField(models.CharField):
    """A CharField for error messages: stores them without absolute paths of this machine.

    What is longer than the column is cut: a short name may be longer than the path that it stands
    for.
    """

    def get_prep_value(self, value: object) -> object:
        value = super().get_prep_value(value)
        return public_text(value)[: self.max_length] if isinstance(value, str) else value

    def deconstruct(self) -> tuple:
        """Return a CharField for migrations, since the column is one."""
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.CharField", arguments, options


def _roots() -> tuple[str, ...]:
    """Return the folders that belong to this installation, the innermost first."""
    data = (settings.VAR, settings.WEIGHTS_ROOT, settings.IMPORTS_ROOT, settings.BASE_DIR)
    places = [*map(str, data), sys.prefix, sys.base_prefix, tempfile.gettempdir(), str(Path.home())]
    usable = {place.rstrip("/") for place in places} - {"", "/usr"}
    return tuple(sorted(usable, key=len, reverse=True))


@cache
def _pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    places = "|".join(map(re.escape, roots))
    return re.compile(rf"(?<![\w.])(?P<root>{places})(?![\w.-]){REST}")


def _short(match: re.Match[str]) -> str:
    path = match["rest"].strip("/")
    if not path:
        return NAMELESS
    if match["root"] == str(settings.BASE_DIR):
        return path
    return path.rpartition("/")[2]
