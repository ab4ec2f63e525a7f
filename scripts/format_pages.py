#!/usr/bin/env python3
"""Format templates with djangofmt, style sheets with cssbeautifier and scripts with oxfmt.

    python scripts/format_pages.py [--check]

With --check nothing is written; files that would change are printed, and the exit status is 1.

djangofmt adds no white space inside inline elements, but it takes every other element for one whose
white space isn't shown. So an element with `white-space: pre-wrap` and text in it needs
`{# djangofmt:ignore #}` in front.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import cssbeautifier

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ("templates", "apps", "examples")
STYLES = "static/css"
SCRIPTS = ("apps", "clients", "examples", "static", "tests")  # less what .oxfmtrc.json leaves out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file differs"
    )
    check = parser.parse_args().check
    changed = [*_format_templates(check), *_format_styles(check), *_format_scripts(check)]
    for name in changed:
        print(f"{'would format' if check else 'formatted'} {name}")
    return int(check and bool(changed))


def _format_templates(check: bool) -> list[str]:
    """Return what djangofmt prints about files that differ. Raises SystemExit if it fails."""
    program = Path(sys.executable).with_name("djangofmt")
    command: Sequence[str | Path] = [program, *(["--check"] if check else []), *TEMPLATES]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process.returncode not in (0, 1) or (process.returncode and not check):
        raise SystemExit(process.stdout + process.stderr)
    return (process.stdout + process.stderr).splitlines() if process.returncode else []


def _format_styles(check: bool) -> list[str]:
    options = cssbeautifier.default_options()
    options.indent_size = 2
    options.end_with_newline = True
    options.newline_between_rules = True
    options.space_around_combinator = True
    changed = []
    for path in sorted((ROOT / STYLES).glob("*.css")):
        before = path.read_text(encoding="utf-8")
        after = cssbeautifier.beautify(before, options)
        if after == before:
            continue
        changed.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(after, encoding="utf-8")
    return changed


def _format_scripts(check: bool) -> list[str]:
    """Return the scripts that differ. Raises SystemExit if oxfmt fails."""
    program = Path(sys.executable).with_name("oxfmt")
    files = [f"{folder}/**/*.{ending}" for folder in SCRIPTS for ending in ("js", "mjs")]
    listing = subprocess.run(
        [program, "--list-different", *files], cwd=ROOT, capture_output=True, text=True
    )
    changed = listing.stdout.split()
    if listing.returncode and not changed:
        raise SystemExit(listing.stdout + listing.stderr)
    if changed and not check:
        subprocess.run([program, *changed], cwd=ROOT, check=True, capture_output=True)
    return changed


if __name__ == "__main__":
    sys.exit(main())
