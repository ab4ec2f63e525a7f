"""The tutorial, followed literally: its commands and code blocks run in order, page by page, on one
installation.

A fenced block that cannot run here stands below a line that begins with `**Not tested here**`,
which says why. A block below “Save this as `NAME`” becomes that file; other blocks of the language
sh are run.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stack.conftest import PATIENCE_S, ROOT

pytestmark = [pytest.mark.stack, pytest.mark.slow]
PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_TESTED = re.compile(r"\*\*Not tested here\*\* \((?P<why>[^)]+)\):\n\n\Z")
SAVED_AS = re.compile(r"Save this\s+as `([^`]+)`:\n\n\Z")
# Names in rftweb's folder that the pages use; the pages create the other files.
SHOWN = ("manage.py", "apps", "clients", "examples", "rftweb", "workers")
WITHOUT_A_TEST = {
    "1-quick-start": ["a test of the whole path runs it in a fresh clone"],
    "2-your-own-model": ["needs the network", "needs a GPU and this model and taskset"],
    "3-your-own-reward": ["restarts the processes"],
    "4-your-raters": ["the token and the address are yours"],
    "5-your-environment": ["the token and the address are yours"],
    "6-from-one-machine-to-many": [
        "the machines are yours",
        "needs several machines and GPUs",
    ],
}
# As in the demo: a policy and a taskset named `sort`, and an account that owns the project.
FURNISH = """
from pathlib import Path
from apps.accounts.models import Membership, Project, Token, User
from apps.policies.registering import register_policy
project = Project.objects.get(slug="demo")
register_policy(project, "sort", Path(%r), "built for a test", "Sort")
you = User.objects.create_user("you", password="correct horse battery")
Membership.objects.create(project=project, user=you, role="owner")
print(Token.issue(you, "tutorial", ["read", "rate", "env:write:digits"])[1])
"""


@dataclass
class Block:
    """A fenced block, with the file that it is saved as, or the reason why it is not run."""

    language: str
    text: str
    file: str
    not_tested: str


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        before = text[: found.start()]
        saved = SAVED_AS.search(before)
        reason = NOT_TESTED.search(before)
        yield Block(
            found[1],
            found[2],
            saved[1] if saved else "",
            reason["why"].partition(",")[0] if reason else "",
        )


def script_of(page: Path) -> str:
    """Return the page as one bash script, which also writes the page's files."""
    lines = ["set -euo pipefail"]
    for block in blocks_of(page):
        if block.not_tested:
            continue
        if block.file:
            lines += [f"cat > {shlex.quote(block.file)} <<'END_OF_FILE'"]
            lines += [block.text.rstrip("\n"), "END_OF_FILE"]
        elif block.language == "sh":
            lines.append(block.text)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(installation, tiny_folder, tmp_path_factory) -> Path:
    """Create a folder that looks like rftweb's to the commands and takes the pages' files."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / ".venv").symlink_to(sys.prefix)
    for name in SHOWN:
        (folder / name).symlink_to(ROOT / name)
    token = installation.must("shell", "-c", FURNISH % str(tiny_folder)).split()[-1]
    (folder / ".token").write_text(token)
    return folder


# In one test, because each page builds on those before it.
def test_every_tutorial_page_can_be_followed_to_its_end(installation, folder):
    known = {
        "RFTWEB_TOKEN": (folder / ".token").read_text(),
        "RFTWEB_ADDRESS": installation.stack.address,
    }
    for page in PAGES:
        done = subprocess.run(
            ["bash", "-c", script_of(page)],
            cwd=folder,
            env={**os.environ, **installation.env, **known},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"
    for slug in ("first", "second", "fourth", "fifth"):
        state = "SELECT state FROM runs_run WHERE slug = %s"
        assert installation.sql(state, slug) == [("completed",)], slug
    assert (folder / "ratings.jsonl").read_text().count("\n") >= 4
    paid = """SELECT count(*) FROM environments_episode e JOIN runs_run r ON r.id = e.run_id
              WHERE r.slug = 'fifth' AND e.state = 'done'"""
    assert installation.one(paid) >= 16


def test_untested_blocks_are_marked_and_known():
    marked = {
        page.stem: list(
            dict.fromkeys(block.not_tested for block in blocks_of(page) if block.not_tested)
        )
        for page in PAGES
    }
    assert marked == WITHOUT_A_TEST


def test_every_block_is_run_saved_or_marked():
    left = [
        (page.stem, block.text)
        for page in PAGES
        for block in blocks_of(page)
        if not (block.not_tested or block.file or block.language == "sh")
    ]
    assert left == []
