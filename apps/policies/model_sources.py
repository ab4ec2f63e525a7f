"""The kinds of sources of a model, told apart without reading the model."""

import re
from pathlib import Path

from apps.policies.named_models import CATALOGUE

KINDS = ("path", "named", "hub")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class NoModel(ValueError):
    """Raised for a source that cannot be a model; the message says what can."""


def kind_of(source: str) -> str:
    """Return which of KINDS the source is. Raises NoModel."""
    if Path(source).exists():
        return "path"
    if source in CATALOGUE:
        return "named"
    if HUB_ID.fullmatch(source):
        return "hub"
    names = ", ".join(sorted(CATALOGUE))
    raise NoModel(f"must be a folder, a GGUF file, a Hub ID such as owner/name, or {names}")
