"""Delete the runs that are due one after the other, then end: `python -m workers.run_removal`."""

import os
import socket
import sys

from workers.processes import die_with_parent


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from workers.run_removal.removing import remove_next

    while remove_next(f"run_removal@{socket.gethostname()}:{os.getpid()}"):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
