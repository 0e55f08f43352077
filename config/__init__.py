"""Wiring. The Celery application is loaded with the package, so that every process of ours sends tasks to the same broker."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
