"""Start the process in which library environments are played, and limit it."""

import sys

from apps.plugins.registry import REGISTRY

MEMORY_BYTES = 1 << 30
MAX_REPLY_LENGTH = 4 << 20  # bytes
CHILD = "apps.environments.library.child"
START_S = 10.0  # seconds for a process to start, beside its first move


def command(module: str = CHILD, memory_bytes: int = MEMORY_BYTES) -> list[str]:
    plugins = [str(REGISTRY.folder or "")] if module == CHILD else []
    return [sys.executable, "-m", module, str(memory_bytes), *plugins]


def surroundings() -> dict[str, str]:
    """Return the process's environment variables: the module path, and no secrets."""
    return {"PYTHONPATH": ":".join(sys.path)}
