"""Wiring only. Importing it makes the Celery application current, so that web processes can send tasks."""

from config.celery import app as celery

__all__ = ["celery"]
