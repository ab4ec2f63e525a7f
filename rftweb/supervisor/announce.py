"""Tell the supervisor that a Celery worker is ready, by a file named in RFTWEB_READY_FILE.

The file gets the process id. The module is loaded with `celery worker --include`, and works without
remote control, which is switched off.
"""

import os
from pathlib import Path

from celery.signals import worker_ready


@worker_ready.connect
def write_ready_file(**_kwargs) -> None:
    if path := os.environ.get("RFTWEB_READY_FILE"):
        draft = Path(f"{path}.{os.getpid()}")
        draft.write_text(str(os.getpid()))
        draft.replace(path)
