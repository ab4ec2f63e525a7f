"""Formatting templates does not change what they show.

No services. A second of one core.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STYLES = sorted((ROOT / "static" / "css").glob("*.css"))
FOLDERS = ("templates", "apps", "examples")
TEMPLATES = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.html"))
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
KEEPS_SPACE = re.compile(r"white-space:\s*(?:pre|pre-wrap|break-spaces)\s*[;}]?")
DJANGO = r"\{\{.*?\}\}|\{%.*?%\}"
OPENING = re.compile(rf"<(\w+)((?:{DJANGO}|[^<>{{])*)>(\s*\n\s*\S)?")
# The formatter leaves the content of these alone, or adds no white space inside them.
INLINE = frozenset(("pre", "textarea", "span", "a", "b", "bdi", "code", "small", "button"))


def list_selectors() -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield (classes of the element, classes around it) of each rule that preserves white space."""
    for style in STYLES:
        text = re.sub(r"/\*.*?\*/", "", style.read_text(encoding="utf-8"), flags=re.DOTALL)
        for selectors, declarations in RULE.findall(text):
            if not KEEPS_SPACE.search(declarations):
                continue
            for selector in selectors.split(","):
                *around, own = selector.replace(">", " ").split()
                if classes := re.findall(r"\.([\w-]+)", own):
                    yield frozenset(classes), frozenset(re.findall(r"\.([\w-]+)", " ".join(around)))


SELECTORS = sorted(set(list_selectors()), key=repr)


def list_padded(path: Path) -> list[str]:
    """Return the elements of a template that would show preserved white space before their text."""
    text = path.read_text(encoding="utf-8")
    padded = []
    for tag, attributes, has_space in OPENING.findall(text):
        found = re.search(r'class="([^"]*)"', attributes)
        if tag in INLINE or not has_space or not found or has_space.strip() == "<":
            continue
        classes = set(re.sub(DJANGO, " ", found[1]).split())
        padded += [
            f"<{tag} class={found[1]!r}>"
            for own, around in SELECTORS
            if own <= classes and all(_has_class(text, name) for name in around)
        ]
    return padded


def _has_class(text: str, name: str) -> bool:
    return re.search(rf'class="[^"]*(?<![\w-]){name}(?![\w-])', text) is not None


def test_rules_that_preserve_white_space_are_found():
    assert (frozenset({"tokens"}), frozenset()) in SELECTORS
    assert (frozenset({"words"}), frozenset({"move"})) in SELECTORS


def test_element_broken_into_lines_is_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<p class="tokens">\n  {{ text }}\n</p>', encoding="utf-8")
    assert list_padded(page) == ["<p class='tokens'>"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_templates_add_no_white_space_to_text_that_preserves_it(path):
    assert list_padded(path) == []
