"""The words of findings: what pages and messages both say."""

from django.utils import translation

from advisor.rule import load
from advisor.unshown import UNSHOWN
from fleet.findings import words
from fleet.findings.events import GPU_BACK
from fleet.findings.lifecycle import JOB_ENDED


def test_every_feature_that_a_rule_shows_has_a_label() -> None:
    """Evidence is read by people."""
    shown = {show.feature for rule in load() for show in rule.evidence}

    assert {name for name in shown if words.evidence(name) == name.replace("_", " ")} == set()
    assert set(words.FEATURE) - shown - set(UNSHOWN) == {
        "absent_readings", "app_xid_gpus_30d", "clock_skew_s", "known_nodes", "late_s", "silent_nodes", "silent_s", "sxid", "xid", "xid_events",
    }  # fmt: skip
    assert UNSHOWN.keys() & shown == set()


def test_writes_of_a_process_and_of_disks_are_told_apart() -> None:
    """6.69 GB/s into the page cache beside 3.74 kB/s on disks is no contradiction, and reads as none."""
    assert "page cache" in words.evidence("write_bytes_per_s")
    assert "whole host" in words.evidence("disk_write_bytes_per_s")


def test_a_feature_that_nobody_named_is_shown_in_plain_words() -> None:
    """Something new is not hidden."""
    assert words.evidence("brand_new") == "brand new"


def test_what_the_server_notes_is_told_in_the_readers_language() -> None:
    """A severity that rose, and why a finding ended; a note from an older version is shown as it is."""
    assert words.note("warn -> critical") == "warning → critical"
    assert (words.note(""), words.note("something old")) == ("", "something old")
    with translation.override("zh-hans"):
        told = [words.note(text) for text in ("warn -> critical", JOB_ENDED, GPU_BACK)]

    assert told == ["警告 → 严重", "作业已结束", "GPU 已恢复。"]
