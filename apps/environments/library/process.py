"""The process in which such environments are played: how it is started, and what it may take."""

import sys

MEMORY_BYTES = 1 << 30
LONGEST_REPLY = 4 << 20  # bytes
CHILD = "apps.environments.library.child"
START_S = 10.0  # that a process may take to come up, beside its first move


def command(module: str = CHILD, memory_bytes: int = MEMORY_BYTES) -> list[str]:
    return [sys.executable, "-m", module, str(memory_bytes)]


def surroundings() -> dict[str, str]:
    """Its environment variables: it is to find our modules, and to know none of our secrets."""
    return {"PYTHONPATH": ":".join(sys.path)}
