"""The Celery application as the judging worker has it: `celery -A config.worker`. It says how memory is kept, before Polars is loaded.

A judgement takes and gives back a gigabyte every ten seconds; to give it back to the kernel in between, page by page, costs a
sixth of its CPU time. Other processes take less and give it back at once. Polars computes in one thread: two that share the work of a
judgement wait for each other for a twentieth of their CPU time, and a cycle of 10,000 GPUs ends in half of its ten seconds all the same.
A site that would rather have it sooner sets POLARS_MAX_THREADS, as `make up` does for its demo.
"""

import os

from config.celery import app, settle

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:60000,muzzy_decay_ms:60000")

__all__ = ["app", "settle"]
