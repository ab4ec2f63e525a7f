"""If an interpreter lies outside the system folders, its guest sees its files but none of its
parent folders.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.rewards.sandbox import Limits, languages, prepare_program

LIMITS = Limits(cpu_s=10, wall_s=60, memory_mb=256)


@pytest.fixture
def home() -> Iterator[Path]:
    """Create a home folder that other users may read, with `~/bin/node` and a secret."""
    folder = Path(tempfile.mkdtemp(prefix="home-", dir="/var/tmp"))  # the guest has its own /tmp
    folder.chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "secret").write_text("the secret")
    languages._find_tool.cache_clear()
    yield folder
    languages._find_tool.cache_clear()
    shutil.rmtree(folder)


def test_program_in_a_home_folder_does_not_expose_the_folder(home, monkeypatch):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    shutil.copy(os.path.realpath(node), home / "bin" / "node")
    (home / "bin" / "other").write_text("another secret")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    assert languages.require_tool("javascript").path == str(home / "bin" / "node")
    source = (
        "const fs = require('fs'); for (const at of ['/', '/bin'])"
        f" console.log(fs.readdirSync('{home}' + at).join())"
    )
    ended = prepare_program(source, "javascript").run(b"", LIMITS)
    assert ended.stdout.decode().splitlines() == ["bin", "node"], ended


@pytest.mark.parametrize(
    ("language", "tool"),
    [
        ("python", os.path.realpath(sys.executable)),
        ("python", "/usr/bin/python3"),
        ("c", "/usr/bin/gcc"),
    ],
)
def test_mounted_files_lie_inside_the_tools_own_folders(language, tool):
    found = languages.required_files(languages.LANGUAGES[language], tool)
    above = [path for path in found if Path(tool).is_relative_to(path) and path != tool]
    assert above == []
    assert all(Path(path).exists() for path in found)
    if tool.startswith("/usr/bin/"):
        assert found == ()
    else:
        assert any(Path(path, "os.py").exists() for path in found)
