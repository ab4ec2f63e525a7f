"""`scripts/release.py` in a small repository with its own Makefile."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "release.py"
READY = "# Changelog\n\n## 1.2.0 (2026-01-31)\n\n- Faster.\n\n## 1.1.0 (unreleased)\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(READY)
    (tmp_path / "Makefile").write_text("check:\n\t@echo checked\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Change")


def release(repository: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repository / "scripts" / "release.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_ready_commit_gets_its_tag_command(repository: Path) -> None:
    done = release(repository)
    assert done.returncode == 0, done.stderr
    assert "checked" in done.stdout
    assert "git tag --annotate v1.2.0 --message 'rftweb 1.2.0'" in done.stdout


@pytest.mark.parametrize(
    ("changelog", "problem"),
    [
        (READY.replace("(2026-01-31)", "(unreleased)"), "says 'unreleased'"),
        (READY.replace("- Faster.", "- Unreleased: faster."), "says 'unreleased'"),
        (READY.replace("1.2.0", "1.3.0"), "the version is 1.2.0"),
        ("# Changelog\n", "no section"),
    ],
)
def test_the_changelog_must_describe_the_version(
    repository: Path, changelog: str, problem: str
) -> None:
    (repository / "CHANGELOG.md").write_text(changelog)
    commit(repository)
    done = release(repository)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "git tag" not in done.stdout


def test_changes_must_be_committed(repository: Path) -> None:
    (repository / "new.py").write_text("")
    done = release(repository)
    assert done.returncode == 1
    assert "?? new.py" in done.stderr


def test_existing_tag_is_refused(repository: Path) -> None:
    git(repository, "tag", "v1.2.0")
    done = release(repository)
    assert done.returncode == 1
    assert "Tag v1.2.0 exists already" in done.stderr


def test_the_checks_must_pass(repository: Path) -> None:
    (repository / "Makefile").write_text("check:\n\t@false\n")
    commit(repository)
    done = release(repository)
    assert done.returncode == 1
    assert "git tag" not in done.stdout
