"""Apps load without garbage collection, which is enabled when all apps are ready; workers load no
pages.
"""

import gc
import os
import subprocess
import sys

from django.apps import apps
from django.conf import settings


def test_rftweb_is_the_last_installed_app():
    assert settings.INSTALLED_APPS[-1] == "rftweb"


def test_garbage_collection_is_enabled_when_all_apps_are_ready():
    ours = apps.get_app_config("rftweb")
    frozen_before = gc.get_freeze_count()
    try:
        gc.disable()
        ours.ready()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen_before
    finally:
        gc.enable()


def test_creating_the_app_config_disables_garbage_collection(monkeypatch):
    ours = apps.get_app_config("rftweb")
    try:
        type(ours)(ours.name, ours.module)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_worker_imports_no_pages():
    """Skip Django's checks, which import all pages; Celery ignores what they report."""
    environment = {**os.environ}
    environment.pop("CELERY_SKIP_CHECKS", None)
    program = (
        "import sys; from rftweb.celery import app; app.loader.import_default_modules(); "
        "print('rftweb.urls' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert loaded.stdout == "False\n"
