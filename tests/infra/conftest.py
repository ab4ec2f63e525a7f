"""Fixtures of the tests in infra."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def var(monkeypatch) -> Iterator[Path]:
    """Create an empty installation folder that other accounts may enter, with no addresses in the
    environment.
    """
    for variable in ("DATABASE_URL", "REDIS_URL", "RFTWEB_PG_BIN"):
        monkeypatch.delenv(variable, raising=False)
    with tempfile.TemporaryDirectory(prefix="rftweb-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "var"
