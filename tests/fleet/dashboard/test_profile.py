"""The profile of a job on its finding's page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.findings.lifecycle import Place, end
from fleet.findings.lifecycle import report as note
from fleet.findings.models import Finding
from fleet.profiles.keep import keep
from fleet.profiles.models import JobProfile
from tests.fleet.profiles.reports import GEMM, report
from tests.fleet.rows import found, node
from wire.profile import TopKernel

pytestmark = pytest.mark.django_db
JOB = "n1/alice/python"


def finding(rule: str = "launch-bound-small-kernels", scope: str = "job", target: str = JOB) -> Finding:
    """An open finding of the job."""
    said = found(target, rule=rule, scope=scope)
    note(timezone.now(), said, Place(None))
    return Finding.objects.get(fingerprint=said.fingerprint)


def page(viewer: Client, of: Finding) -> str:
    """The finding's page."""
    return viewer.get(f"/findings/{of.pk}/").content.decode().replace("\u00a0", " ")


def test_it_shows_the_parts_of_the_time_and_the_heaviest_kernels(viewer: Client) -> None:
    """Of the newest profile, with what it says of this rule."""
    home = node()
    keep(report(home, at=1.796e9), home, timezone.now())
    row = JobProfile.objects.get()
    told = page(viewer, finding())

    assert f"Profile of {row.at:%Y-%m-%d %H:%M}" in told
    assert "Rank 0 of 2." in told
    assert "3 steps, median 222 ms." in told
    assert "The profile supports this finding." in told
    assert '<th scope="row">idle: the host launches</th><td class="number">50 %</td><td class="number">500 ms</td>' in told
    assert "DataLoader" not in told  # the profile does not tell
    assert f">{GEMM}</span></th>" in told
    assert (
        '<td class="number">25 %</td><td class="number">100 ms</td><td class="number">300</td><td class="number">333 µs</td>'
        in told
    )


def test_it_says_where_it_contradicts(viewer: Client) -> None:
    """Of another rule the profile may say the opposite, or nothing."""
    home = node()
    keep(report(home), home, timezone.now())

    assert "speaks against this finding" in page(viewer, finding("comm-not-overlapped"))
    silent = page(viewer, finding("low-mfu"))
    assert "Profile of" in silent
    assert "The profile s" not in silent


def test_names_of_kernels_are_text(viewer: Client) -> None:
    """A program may call one anything."""
    home = node()
    evil = TopKernel(name="<script>alert(1)</script>", count=1, total_s=0.1, share=0.2)
    keep(report(home, top=(evil,)), home, timezone.now())
    told = page(viewer, finding())

    assert "<script>alert" not in told
    assert "&lt;script&gt;alert" in told


def test_other_findings_have_none(viewer: Client) -> None:
    """Of GPUs, of other jobs, and of a job without a profile."""
    home = node()
    assert 'id="profile-parts"' not in page(viewer, finding())
    keep(report(home), home, timezone.now())
    assert 'id="profile-parts"' not in page(viewer, finding(target="n1/bob/python"))
    assert 'id="profile-parts"' not in page(viewer, finding(scope="node", target=JOB))


def test_a_finding_that_is_over_keeps_the_profile_of_its_time(viewer: Client) -> None:
    """What was measured later, after the change, does not speak of it."""
    home, row = node(), finding()
    keep(report(home, idle_launching_s=0.4), home, timezone.now())
    end(row.fingerprint, timezone.now(), "over")
    keep(
        report(home, at=(timezone.now() + timedelta(seconds=2)).timestamp(), idle_launching_s=0.02),
        home,
        timezone.now() + timedelta(minutes=5),
    )

    assert '<td class="number">40 %</td>' in page(viewer, row)
