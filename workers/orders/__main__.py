"""Fill what is ordered, one after the other, and end: `python -m workers.orders`."""

import os
import socket
import sys

from workers.processes import die_with_parent


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from workers.orders.filling import fill_next

    while fill_next(f"orders@{socket.gethostname()}:{os.getpid()}"):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
