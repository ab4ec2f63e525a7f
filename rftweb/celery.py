"""The Celery application: five queues, short slices, JSON only. Messages are bells; Postgres holds the work.

Nothing here imports torch: job modules load engines and trainers inside the pool child, at their first job.
"""

import os

from celery import Celery

from rftweb import acks

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")

acks.survive()
app = Celery("rftweb")
app.set_default()  # of every thread: web processes send wake-ups from threads of their own
app.config_from_object("django.conf:settings", namespace="CELERY")
