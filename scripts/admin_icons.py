"""Cut the administration's icon font down to the icons that its pages may show.

Run it after an upgrade of django-unfold or a new icon in rftweb/administration/look.py. Needs
fonttools and brotli. The theme's font has thousands of icons and weighs as much as all else on a
page; Django finds the smaller one first, because it lies in static/ under the same path.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FONT = Path("unfold/fonts/material-symbols/Material-Symbols-Outlined.woff2")
NAMES = (ROOT / "static" / FONT).with_name("icons.txt")
# Between tags, or quoted in a template or in code: whatever of it is no icon's name is left out.
WORD = re.compile(r"""[>"'](?:\s*)([a-z0-9]+(?:_[a-z0-9]+)*)(?:\s*)[<"']""")
WHERE = ("templates/**/*.html", "*.py", "contrib/**/*.py", "contrib/**/*.html", "static/**/*.css")
LOOK = ROOT / "rftweb" / "administration" / "look.py"


def theme_folder() -> Path:
    """Return the folder of the installed theme."""
    import unfold

    return Path(unfold.__file__).parent


def possible_icons(theme: Path) -> set[str]:
    """Return the words that may be names of icons, in the theme and in our sidebar."""
    files = [LOOK, *(file for pattern in WHERE for file in theme.glob(pattern))]
    return {word for file in files for word in WORD.findall(file.read_text("utf-8"))}


def ligatures(font: Any) -> dict[str, str]:
    """Return each icon's name and its glyph, from the ligatures of the font."""
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    glyphs = {}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in _ligature_tables(lookup.SubTable):
            for first, several in table.ligatures.items():
                for ligature in several:
                    name = "".join(letters[part] for part in [first, *ligature.Component])
                    glyphs[name] = ligature.LigGlyph
    return glyphs


def _ligature_tables(tables: Iterable) -> Iterator:
    """Yield the tables of ligatures, also those that an extension wraps."""
    for table in tables:
        inner = getattr(table, "ExtSubTable", table)
        if hasattr(inner, "ligatures"):
            yield inner


def main() -> None:
    from fontTools.subset import Options, Subsetter, load_font, save_font

    theme = theme_folder()
    options = Options(flavor="woff2", layout_closure=False, layout_features=["*"])
    font = load_font(str(theme / "static" / FONT), options)
    glyphs = ligatures(font)
    icons = sorted(glyphs.keys() & possible_icons(theme))
    subsetter = Subsetter(options)
    text = "".join(icons)
    subsetter.populate(text=text, glyphs=[glyphs[name] for name in icons])
    subsetter.subset(font)
    target = ROOT / "static" / FONT
    target.parent.mkdir(parents=True, exist_ok=True)
    save_font(font, str(target), options)
    NAMES.write_text("\n".join(icons) + "\n", encoding="utf-8")
    print(f"{len(icons)} icons, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
