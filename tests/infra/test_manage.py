"""Messages of `manage.py` when the database does not answer."""

import os
import subprocess
import sys

from tests.ports import kept_port
from tests.stack.conftest import ROOT


def test_manage_command_without_a_database_prints_a_readable_error():
    """Takes 3 s, because it starts a process."""
    keeper, port = kept_port()
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://nobody@127.0.0.1:{port}/nothing",
        "REDIS_URL": f"redis://127.0.0.1:{port}/0",
    }
    with keeper:
        done = subprocess.run(
            [sys.executable, "manage.py", "policy", "list"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert "PostgreSQL does not answer" in done.stderr and "manage.py up" in done.stderr
    assert "Traceback" not in done.stderr
