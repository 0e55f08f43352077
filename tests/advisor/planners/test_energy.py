"""Energy, CO2 and cost: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.energy import counter_kwh, energy, idle_cost, mean_power_kwh, owned_price_per_gpu_hour

CLOSE = 0.005


def test_eight_gpus_and_a_server_for_a_day() -> None:
    """8 x 400 W are 76.8 kWh, 6.5 kW are 156 kWh."""
    assert energy(8, 24, 400).gpu_kwh == pytest.approx(76.8)
    assert mean_power_kwh(6500, 24) == pytest.approx(156)


def test_a_job_of_three_days_with_its_host_and_its_site() -> None:
    """8 x 650 W and 2 kW, PUE 1.3, 0.40 kg and 0.12 per kWh."""
    told = energy(8, 72, 650, 2000, 1.3, co2_kg_per_kwh=0.40, tariff_per_kwh=0.12)

    assert told.site_kwh == pytest.approx(673.9, rel=CLOSE)
    assert told.co2_kg == pytest.approx(269.6, rel=CLOSE)
    assert told.energy_cost == pytest.approx(80.87, rel=CLOSE)
    assert told.cost == told.energy_cost


def test_rented_gpus() -> None:
    """8 GPUs for 72 hours at 2.50; with a tariff both are paid, and a unit costs its part."""
    rented = energy(8, 72, 650, price_per_gpu_hour=2.50)
    both = energy(8, 72, 650, price_per_gpu_hour=2.50, tariff_per_kwh=0.1, units=1000)

    assert rented.gpu_cost == rented.cost == pytest.approx(1440)
    assert both.cost == pytest.approx(1440 + 37.44)
    assert both.cost_per_unit == pytest.approx(1.47744)


def test_without_prices_nothing_costs_zero() -> None:
    """It is unknown."""
    told = energy(8, 24, 400)

    assert (told.co2_kg, told.energy_cost, told.gpu_cost, told.cost, told.cost_per_unit) == (None,) * 5


def test_a_counter_of_millijoules() -> None:
    """3.6e9 are a kWh; one that fell began anew."""
    assert counter_kwh(1e9, 1e9 + 3.6e9) == pytest.approx(1)
    with pytest.raises(ValueError, match="the counter began anew"):
        counter_kwh(2, 1)


def test_owned_and_idle_gpus_cost_too() -> None:
    """30,000 over 40,000 hours at three quarters; an idle hour at 100 W."""
    assert owned_price_per_gpu_hour(30_000, 40_000, 0.75) == pytest.approx(1.0)
    assert idle_cost(10, 2.0, 100, 1.5, 0.2) == pytest.approx(20.3)


@settings(deadline=None)
@given(st.integers(1, 1000), st.floats(0.1, 1e4), st.floats(0, 2000), st.floats(1, 3))
def test_a_site_takes_at_least_what_its_gpus_take(gpus: int, hours: float, power: float, pue: float) -> None:
    """And twice the time takes twice the energy."""
    told = energy(gpus, hours, power, pue=pue)

    assert told.site_kwh >= told.gpu_kwh * (1 - 1e-12)
    assert energy(gpus, 2 * hours, power, pue=pue).site_kwh == pytest.approx(2 * told.site_kwh)


@pytest.mark.parametrize("bad", [-1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^hours must be .*\.$"):
        energy(8, bad, 400)
    with pytest.raises(ValueError, match=r"^tariff_per_kwh must be .*\.$"):
        energy(8, 24, 400, tariff_per_kwh=bad)
    with pytest.raises(ValueError, match="pue must be from 1 to 10"):
        energy(8, 24, 400, pue=0.9)
