"""Apps load without collections of garbage, which begin when all are ready."""

import gc

from django.apps import apps
from django.conf import settings


def test_ours_is_the_last_app_so_that_all_others_load_without_collections():
    assert settings.INSTALLED_APPS[-1] == "rftweb"


def test_collections_begin_when_all_apps_are_ready():
    ours = apps.get_app_config("rftweb")
    frozen_before = gc.get_freeze_count()
    try:
        gc.disable()
        ours.ready()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen_before
    finally:
        gc.enable()


def test_a_process_that_loads_apps_collects_nothing_meanwhile(monkeypatch):
    ours = apps.get_app_config("rftweb")
    try:
        type(ours)(ours.name, ours.module)
        assert not gc.isenabled()
    finally:
        gc.enable()
