"""Tells the supervisor that a Celery worker takes jobs: its process id goes into the file RFTWEB_READY_FILE names.

Loaded into workers with `celery worker --include`. It answers without remote control, which is switched off.
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
