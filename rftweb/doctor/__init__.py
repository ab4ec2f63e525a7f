"""Checks of everything an installation needs, for `manage.py doctor`; each says how to fix it."""

from rftweb.doctor.finding import Finding, Level
from rftweb.doctor.installation import (
    check_engine,
    check_keys,
    check_migrations,
    check_python,
    check_secrets,
    check_versions,
)
from rftweb.doctor.machine import check_disk, check_gpu, check_pages, check_sandbox
from rftweb.doctor.plugins import check_plugins
from rftweb.doctor.services import check_broker, check_control, check_database, check_supervisor
from rftweb.doctor.trainer import check_trainer_processes
from rftweb.doctor.weights import check_weights

CHECKS = (
    check_python,
    check_versions,
    check_secrets,
    check_keys,
    check_disk,
    check_supervisor,
    check_database,
    check_migrations,
    check_broker,
    check_control,
    check_weights,
    check_sandbox,
    check_pages,
    check_gpu,
    check_engine,
    check_trainer_processes,
    check_plugins,
)

__all__ = ["CHECKS", "Finding", "Level"]
