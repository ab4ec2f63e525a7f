"""Delete the runs and projects that are due, then end: `python -m workers.run_removal`."""

import os
import socket
import sys

from workers.processes import die_with_parent


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from workers.run_removal.projects import remove_next_project
    from workers.run_removal.removing import remove_next

    owner = f"run_removal@{socket.gethostname()}:{os.getpid()}"
    while remove_next_project(owner) or remove_next(owner):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
