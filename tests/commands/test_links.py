"""`scripts/check_links.py` on a small repository with right and broken links."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_links.py"
GUIDE = """\
# Guide

## Set-up & first run: `make demo`
## Twice
## Twice
## [A link](other.md) and *emphasis*
## snake_case_names
<a id="by-hand"></a>

Underlined
----------
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("scripts", "docs", "apps", "var", ".github"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "docs" / "guide.md").write_text(GUIDE)
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    return tmp_path


def check(repository: Path) -> tuple[int, list[str]]:
    """Run the check; return its exit status and the lines about broken links."""
    command = [sys.executable, str(repository / "scripts" / "check_links.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()[:-1]


@pytest.mark.parametrize(
    "target",
    [
        "docs/guide.md",
        "docs/",
        "./docs/guide.md#guide",
        "docs/guide.md#set-up--first-run-make-demo",
        "docs/guide.md#twice",
        "docs/guide.md#twice-1",
        "docs/guide.md#a-link-and-emphasis",
        "docs/guide.md#snake_case_names",
        "docs/guide.md#by-hand",
        "docs/guide.md#underlined",
        "#here",
        "https://example.com/docs/none.md",
        "mailto:a@example.com",
    ],
)
def test_valid_links_pass(repository: Path, target: str) -> None:
    (repository / "README.md").write_text(
        f"# Here\n\nSee [it]({target}), ![it]({target} 'title').\n"
    )
    assert check(repository) == (0, [])


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](docs/none.md)", "docs/none.md: no such file"),
        ("[a](docs/Guide.md)", "docs/Guide.md: no such file"),
        ("[a](docs/guide.md#twice-2)", "docs/guide.md#twice-2: no such heading in docs/guide.md"),
        ("[a](#there)", "#there: no such heading in README.md"),
        ("![a](docs/none.png)", "docs/none.png: no such file"),
        ("[![a](docs/guide.md)](docs/none.md)", "docs/none.md: no such file"),
        ('<a href="docs/none.md">a</a>', "docs/none.md: no such file"),
        ("[a]: docs/none.md", "docs/none.md: no such file"),
        ("[a](../none.md)", "../none.md: leads out of the repository"),
        ("`docs/none.md` says more", "docs/none.md: no such file"),
        ("see `apps/none.py`", "apps/none.py: no such file"),
    ],
)
def test_broken_link_is_reported_with_file_and_line(
    repository: Path, text: str, broken: str
) -> None:
    (repository / "README.md").write_text(f"# Here\n\n{text}\n")
    assert check(repository) == (1, [f"README.md:3: {broken}"])


def test_links_in_code_are_ignored(repository: Path) -> None:
    text = "```md\n[a](none.md)\n```\n\n`[a](none.md)` and ``[a](`none`.md)``\n"
    (repository / "README.md").write_text(text)
    assert check(repository) == (0, [])


def test_heading_in_a_code_block_is_not_an_anchor(repository: Path) -> None:
    (repository / "README.md").write_text("```\n# here\n```\n[a](#here)\n")
    assert check(repository) == (1, ["README.md:4: #here: no such heading in README.md"])


def test_mentions_in_code_and_templates_are_checked(repository: Path) -> None:
    code = '"""Formats: docs/none.md. See docs/guide.md#twice, and https://a.org/docs/x.md."""\n'
    (repository / "apps" / "code.py").write_text(code)
    (repository / "apps" / "page.html").write_text("<p>\n{# docs/guide.md#thrice #}\n")
    assert check(repository) == (
        1,
        [
            "apps/code.py:1: docs/none.md: no such file",
            "apps/page.html:2: docs/guide.md#thrice: no such heading in docs/guide.md",
        ],
    )


def test_files_generated_by_a_run_are_ignored(repository: Path) -> None:
    (repository / "var" / "notes.md").write_text("[a](none.md)")
    (repository / ".github" / "TEMPLATE.md").write_text("[a](none.md)")
    assert check(repository) == (1, [".github/TEMPLATE.md:1: none.md: no such file"])
