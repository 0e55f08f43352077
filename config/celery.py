"""The Celery application; each app's tasks.py registers its own, beat's schedule stands here."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
app = Celery("fettle")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
