"""What a worker says of memory is said in time."""

import os
import subprocess
import sys


def test_the_allocator_is_told_before_polars_reads_it() -> None:
    """In a new process, whose own word for it counts more."""
    code = "import os, sys, config.celery; print('polars' in sys.modules, os.environ['_RJEM_MALLOC_CONF'])"
    env = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}

    def said(**more: str) -> str:
        return subprocess.run([sys.executable, "-c", code], env=env | more, check=True, capture_output=True, text=True).stdout

    assert said().startswith("False narenas:1,dirty_decay_ms:60000")
    assert said(_RJEM_MALLOC_CONF="narenas:4") == "False narenas:4\n"


def test_a_new_child_leaves_what_was_imported_alone() -> None:
    """The collector does not look at it again; in a process of its own, for what is frozen is never freed."""
    code = "import gc; from config.celery import settle; settle(); print(gc.get_freeze_count() > 0)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"
