"""Take up what is to be imported, one file after the other, and end: `python -m workers.importing LANE`.

Each file is read by a child whose memory is bounded: people's files are decoded nowhere else. A child that
dies of a file leaves the others to the next child, and the import says why it failed.
"""

import os
import signal
import socket
import sys
import traceback

from workers.processes import die_with_parent

NOTHING_DUE = 3  # exit status of a child that found no file


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    lane = sys.argv[1] if len(sys.argv) > 1 else "all"
    owner = f"import@{socket.gethostname()}:{os.getpid()}"
    while (status := _run_child(owner, lane)) != NOTHING_DUE:
        if status > 0:  # such as a database that is away: the file stays due
            return status
        if status < 0:
            _fail_files_of(owner, signal.Signals(-status).name)
    return 0


def _run_child(owner: str, lane: str) -> int:
    """Fork a child that imports one file; return its exit status, negative for a signal."""
    from django.db import connections

    connections.close_all()  # a connection must not be shared by two processes
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _import_one(owner, lane, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _import_one(owner: str, lane: str, parent: int) -> int:
    from apps.accounts.confining import confine
    from workers.importing.importing import import_next

    die_with_parent(parent)
    confine()
    return 0 if import_next(owner, lane) else NOTHING_DUE


def _fail_files_of(owner: str, signal_name: str) -> None:
    """End the import of the file at which the child was killed; the next child would be, too."""
    from apps.accounts.confining import TOO_MUCH
    from apps.tasksets.models import TasksetImport

    for one in TasksetImport.objects.filter(lease_owner=owner, state=TasksetImport.State.RUNNING):
        one.fail(f"the process that read it was ended by {signal_name}; perhaps {TOO_MUCH}")


if __name__ == "__main__":
    sys.exit(main())
