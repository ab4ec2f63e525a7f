"""One process of a kind, kept while there is work for it: imports and exports take minutes.

Only a job of the control worker starts it, and the process ends by itself when nothing is due.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

import structlog
from django.conf import settings

from apps.streaming import wakeups

log = structlog.get_logger(__name__)


class OnDemand:
    """The process `python -m MODULE`, which the given job starts."""

    def __init__(self, module: str, job: str) -> None:
        self.module = module
        self.job = job
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        """Start the process, and send the job again once it has ended normally.

        It may have found nothing just before work arrived, whose job saw it still running. A
        process that fails is started again by the next regular job.
        """
        command = [sys.executable, "-m", self.module, *arguments]
        self.process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=env)
        threading.Thread(target=self._watch, args=(self.process,), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if status == 0:
            wakeups.send(self.job)
        else:
            log.warning("process_failed", module=self.module, status=status)
