"""The terms of docs/glossary.md, for pages that explain a word where it stands."""

import re
from functools import cache

from apps.dashboard.help.library import read_help_pages
from apps.dashboard.help.rendering import GLOSSARY

ROW = re.compile(r"^\| (?!term \||-)([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@cache
def terms() -> dict[str, str]:
    """Return the meaning of each term."""
    rows = ROW.findall(read_help_pages()[GLOSSARY].text())
    return {term.strip(): meaning.strip() for term, meaning in rows}
