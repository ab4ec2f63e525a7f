"""Apps load without garbage collection, which is enabled when all apps are ready."""

import gc

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
