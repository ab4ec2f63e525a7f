"""The Celery application: five queues, short jobs, JSON only.

Messages are mere wake-ups; the work is stored in Postgres. Nothing here imports torch: job modules
load engines and trainers inside the pool child, at their first job.
"""

import os

from celery import Celery

from rftweb import redis_qos

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")

redis_qos.survive()
app = Celery("rftweb")
app.set_default()  # for every thread: web processes send wake-ups from several threads
app.config_from_object("django.conf:settings", namespace="CELERY")
