"""Preview and import files until none has been due for some seconds.

`python -m workers.importing SECONDS`

Each file is read by a child whose memory is bounded: people's files are decoded nowhere else. A
child that dies of a file leaves the others to the next child, and the import says why it failed.
Previews and imports have a child each, so that nobody's preview waits for a long import.
"""

import os
import signal
import socket
import sys
import time
import traceback

from workers.processes import die_with_parent

LANES = ("previews", "imports")
LOOK_S = 0.2  # how often is looked for files that are due
NOTHING_DUE = 3  # exit status of a child that found no file


def main() -> int:
    die_with_parent(os.getppid())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    idle_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    return _Children().serve(idle_s)


class _Children:
    """Forked child processes, at most one in each lane."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.failed = 0  # exit status of a child that met more than a broken file

    def serve(self, idle_s: float) -> int:
        """Do all pending work; return the exit status of this process."""
        last_busy = time.monotonic()
        while True:
            for lane in LANES:
                self._reap(lane)
                if lane not in self.pids and not self.failed and _is_due(lane):
                    self.pids[lane] = _fork(lane)
            if self.pids:
                last_busy = time.monotonic()
            elif self.failed or time.monotonic() - last_busy >= idle_s:
                return self.failed
            time.sleep(LOOK_S)

    def _reap(self, lane: str) -> None:
        if lane not in self.pids:
            return
        pid, raw = os.waitpid(self.pids[lane], os.WNOHANG)
        if pid == 0:
            return
        del self.pids[lane]
        status = os.waitstatus_to_exitcode(raw)
        if status < 0:
            _fail_files_of(_owner(lane), signal.Signals(-status).name)
        elif status != NOTHING_DUE:  # such as a database that is away: the file stays due
            self.failed = status


def _owner(lane: str) -> str:
    return f"{lane}@{socket.gethostname()}:{os.getpid()}"


def _is_due(lane: str) -> bool:
    from apps.tasksets.models import TasksetImport
    from workers.importing.importing import LANES as CONDITIONS

    return TasksetImport.objects.due().filter(CONDITIONS[lane]).exists()


def _fork(lane: str) -> int:
    """Fork a child that imports one file; return its process number."""
    from django.db import connections

    connections.close_all()  # a connection must not be shared by two processes
    owner = _owner(lane)
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        status = _import_one(owner, lane, parent)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _import_one(owner: str, lane: str, parent: int) -> int:
    from apps.accounts.confining import confine
    from workers.importing.importing import import_next_file

    die_with_parent(parent)
    confine()
    return 0 if import_next_file(owner, lane) else NOTHING_DUE


def _fail_files_of(owner: str, signal_name: str) -> None:
    """End the import of the file at which the child was killed; the next child would be, too."""
    from apps.accounts.confining import TOO_MUCH
    from apps.tasksets.models import TasksetImport

    for row in TasksetImport.objects.filter(lease_owner=owner, state=TasksetImport.State.RUNNING):
        row.fail(f"the reading process was killed by {signal_name}; possible cause: {TOO_MUCH}")


if __name__ == "__main__":
    sys.exit(main())
