"""Take up what is to be imported, one file after the other, and end: `python -m workers.importing`."""

import os
import socket
import sys

from workers.processes import die_with_parent


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from workers.importing.importing import import_next

    while import_next(f"import@{socket.gethostname()}:{os.getpid()}"):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
