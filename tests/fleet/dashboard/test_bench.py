"""The bench table on a GPU's page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.benches.keep import keep
from fleet.dashboard.bench import label
from tests.fleet.benches.reports import report
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db


def test_a_gpus_page_shows_its_scores_beside_its_peers(viewer: Client) -> None:
    """Score, share of the peak, median of the others and the share of it; one that is slow stands out."""
    home = node()
    cards = [gpu(home, index) for index in range(5)]
    values = {card.uuid: 700e12 for card in cards} | {cards[4].uuid: 630e12}
    keep(report(home, values), home, timezone.now())
    slow, fine = (viewer.get(f"/gpus/{cards[number].pk}/") for number in (4, 0))
    (row,) = slow.context["bench"]
    page = slow.content.decode()

    assert (row.value, row.median, row.peers) == ("630\u00a0TFLOP/s", "700\u00a0TFLOP/s", 4)
    assert row.share == pytest.approx(0.9)
    assert row.is_slow
    assert "matrix product, bf16, 8192" in page
    assert "<strong>90\u00a0%</strong>" in page
    assert "64\u00a0%" in page  # of 989 TFLOP/s
    assert "quick run" in page
    assert not fine.context["bench"][0].is_slow


def test_a_gpu_that_was_never_measured_has_no_table(viewer: Client) -> None:
    """Nothing stands where nothing is known."""
    page = viewer.get(f"/gpus/{gpu(node()).pk}/").content.decode()

    assert 'id="bench"' not in page


def test_a_run_that_is_marked_says_so(viewer: Client) -> None:
    """Beside other processes; and a lone GPU has a dash for its peers."""
    home = node()
    card = gpu(home)
    keep(report(home, {card.uuid: 700e12}, shared=True), home, timezone.now() + timedelta(seconds=1))
    page = viewer.get(f"/gpus/{card.pk}/").content.decode()

    assert "beside other processes" in page


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("matmul_bf16_8192x14336x4096", "matrix product, bf16, 8192 × 14336 × 4096"),
        ("memory_triad", "memory, triad"),
        ("h2d_pinned_16mib", "host to GPU, pinned, 16 MiB"),
        ("d2h_pageable_256mib", "GPU to host, pageable, 256 MiB"),
        ("peer_copy_256mib", "to the next GPU, 256 MiB"),
        ("all_reduce_1gib_8gpus", "all-reduce of 1 GiB over 8 GPUs"),
        ("something_new", "something_new"),
        ("peer_pinned_1mib", "peer_pinned_1mib"),
    ],
)
def test_a_tests_name_is_said_in_words(name: str, words: str) -> None:
    """One of a newer node stands as it is."""
    assert label(name) == words
