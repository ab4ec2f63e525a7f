"""The Django project: settings, URLs, ASGI and Celery.

It wires the apps together and contains no domain logic.
"""

from rftweb.celery import app as celery_app

__all__ = ["celery_app"]
