"""Process the queued orders one after the other, then end: `python -m workers.export_jobs`."""

import os
import socket
import sys

from workers.processes import die_with_parent


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from workers.export_jobs.runner import run_next

    while run_next(f"export_jobs@{socket.gethostname()}:{os.getpid()}"):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
