"""What findings cost at the site's price, in the reader's language."""

import pytest
from django.utils.translation import override
from pytest_django import Settings

from fleet.findings import cost
from fleet.findings.models import RANK, Finding
from tests.fleet.findings.test_lifecycle import TEN_S, see
from tests.fleet.rows import NOON, found


def test_a_price_makes_money_of_gpu_hours(settings: Settings) -> None:
    """With its currency, and numbers as the language writes them."""
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY = 2.5, "EUR"

    assert cost.sentence(1843.2) == "1,843 GPU-hours a day, 4,608\u00a0EUR at 2.50\u00a0EUR a GPU-hour"
    assert (cost.a_day(38.0), cost.currency()) == (95.0, "EUR")
    with override("de"):
        assert "4.608\u00a0EUR" in cost.sentence(1843.2)


def test_without_a_price_there_is_no_money(settings: Settings) -> None:
    """Only GPU-hours; no currency either."""
    settings.FETTLE_GPU_HOUR_PRICE = None

    assert cost.sentence(38.0) == "38.0 GPU-hours a day"
    assert (cost.a_day(38.0), cost.currency()) == (None, None)


def test_where_a_cost_has_to_stand_it_says_why_there_is_none() -> None:
    """Nothing to win back is one thing, not knowing another."""
    assert cost.answer(0.0) == "no GPU time by itself"
    assert cost.answer(None).startswith("unknown")


@pytest.mark.django_db
def test_a_finding_keeps_what_it_costs_up_to_date() -> None:
    """Each judgement brings the newest: more GPUs cost more, and what is not known any more is null."""
    see(NOON, found(recoverable=0.5, gpus=1))
    row = Finding.objects.get()
    assert (row.gpus_total, row.gpu_hours_a_day) == (1, 12.0)

    see(NOON + TEN_S, found(recoverable=0.25, gpus=4))
    row.refresh_from_db()
    assert (row.gpus_total, row.gpu_hours_a_day) == (4, 24.0)

    see(NOON + 2 * TEN_S, found(recoverable=0.25, gpus=None))
    row.refresh_from_db()
    assert (row.gpus_total, row.gpu_hours_a_day) == (None, None)


@pytest.mark.django_db
def test_rows_are_ranked_as_the_advisor_ranks(db: None) -> None:
    """The same order by the database as by `Finding.order`."""
    told = [
        found(rule="unknown", severity="warn", recoverable=0.9, gpus=None),
        found(rule="nothing", severity="info", recoverable=0.0, gpus=8),
        found(rule="warned", severity="warn", recoverable=0.0, gpus=8),
        found(rule="large", severity="advice", recoverable=0.2, gpus=64),
        found(rule="critical", severity="critical", recoverable=0.0, gpus=1),
    ]
    see(NOON, *told)

    ranked = [one.rule for one in sorted(told, key=type(told[0]).order)]
    assert list(Finding.objects.order_by(*RANK).values_list("rule", flat=True)) == ranked
    assert list(Finding.objects.values_list("rule", flat=True)) == ranked
