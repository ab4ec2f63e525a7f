"""The switchboard: settings, URLs, ASGI and Celery. It wires the apps together and decides nothing."""

from rftweb.celery import app as celery_app

__all__ = ["celery_app"]
