"""The Celery application: five queues, short jobs, JSON only.

Messages are mere wake-ups; the work is stored in Postgres. Nothing here imports torch: job modules
load engines and trainers inside the pool child, at their first job.
"""

import os

from celery import Celery

from rftweb import redis_qos

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
# Celery would run Django's checks in each worker and ignore what they report. They import all
# pages: 700 modules that workers don't need, a third of the processor time of a worker's start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

redis_qos.survive()
app = Celery("rftweb")
app.set_default()  # for every thread: web processes send wake-ups from several threads
app.config_from_object("django.conf:settings", namespace="CELERY")
