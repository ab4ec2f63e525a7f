#!/usr/bin/env python3
"""Check that the checked-out commit can be released, and print the commands that tag it.

    make release

The working tree must be clean, the first section of CHANGELOG.md must have the version of
pyproject.toml and no longer be marked as unreleased, the tag must be new, and `make check` must
pass. Nothing is tagged or pushed. Standard library only.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## +(.*\S)", re.MULTILINE)


def main() -> int:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    problems = [*list_changelog_problems(version), *list_git_problems(f"v{version}")]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if subprocess.run(["make", "check"], cwd=ROOT, check=False).returncode:
        return 1
    print(f"Version {version} can be released. To tag it:")
    print(f"    git tag --annotate v{version} --message 'rftweb {version}'")
    print(f"    git push origin v{version}")
    return 0


def list_changelog_problems(version: str) -> list[str]:
    """Compare the first section of the changelog with the version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = list(SECTION.finditer(text))
    if not headings:
        return ["CHANGELOG.md: there is no section '## VERSION'"]
    title = headings[0][1]
    end = headings[1].start() if len(headings) > 1 else len(text)
    problems = []
    if title.split()[0].strip("[]") != version:
        problems.append(f"CHANGELOG.md: the first section is {title!r}, the version is {version}")
    if "unreleased" in text[headings[0].start() : end].lower():
        problems.append(f"CHANGELOG.md: section {title!r} says 'unreleased'; give it a date")
    return problems


def list_git_problems(tag: str) -> list[str]:
    """Look for changes that are not committed, and for a tag of the same name."""
    problems = []
    if changes := git("status", "--porcelain"):
        problems.append(f"The working tree has changes:\n{changes}")
    if git("tag", "--list", tag):
        problems.append(f"Tag {tag} exists already")
    return problems


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.rstrip()


if __name__ == "__main__":
    sys.exit(main())
