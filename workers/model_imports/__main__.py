"""Work off what is due, then end: `python -m workers.model_imports imports|previews`."""

import os
import socket
import sys
import time

from workers.processes import die_with_parent

IDLE_S = {"imports": 0.0, "previews": 20.0}  # who looks at one preview often asks for another
LOOK_S = 0.2


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    lane = sys.argv[1]
    owner = f"model_{lane}@{socket.gethostname()}:{os.getpid()}"
    ends_at = time.monotonic() + IDLE_S[lane]
    while True:
        if _take_next(lane, owner):
            ends_at = time.monotonic() + IDLE_S[lane]
        elif time.monotonic() >= ends_at:
            return 0
        else:
            time.sleep(LOOK_S)


def _take_next(lane: str, owner: str) -> bool:
    """Process the oldest row that is due in this lane; return whether there was one."""
    from workers.model_imports.previewing import preview_next
    from workers.model_imports.running import import_next_model, remove_next

    if lane == "previews":
        return preview_next(owner)
    return import_next_model(owner) or remove_next(owner)


if __name__ == "__main__":
    sys.exit(main())
