"""Energy, CO2 and cost of a job, at the wall of the site."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.idle import Idle
from advisor.planners.inputs import InputError
from advisor.planners.planner import NOT_COUNTED, Caution, Parameter, Planner, shown
from advisor.planners.plot import Line, Plot
from advisor.text import Text, _

MILLIJOULES_PER_KWH: Final = 3.6e9


@dataclass(frozen=True, slots=True)
class Energy:
    """What a job takes and costs; money is in the currency of the prices given, None where no price was. What is not counted comes on top."""

    gpu_kwh: float = shown(_("Energy of the GPUs"), "kilowatt_hours")
    site_kwh: float = shown(_("Energy of the site"), "kilowatt_hours")
    co2_kg: float | None = shown(_("CO2"), "kilograms")
    gpu_hours: float = shown(_("GPU time"), "gpu_hours")
    energy_cost: float | None = shown(_("Cost of the energy"), "money")
    gpu_cost: float | None = shown(_("Cost of the GPU time"), "money")
    cost: float | None = shown(_("Cost"), "money")
    cost_per_unit: float | None = shown(_("Cost of a unit of work"), "money")
    not_counted: tuple[Text, ...] = shown(NOT_COUNTED, "sentences")


def counter_kwh(before_mj: float, after_mj: float) -> float:
    """kWh between two readings of a GPU's energy counter in millijoules."""
    inputs.not_negative(before_mj=before_mj, after_mj=after_mj)
    if after_mj < before_mj:
        raise InputError(
            _("after_mj is below before_mj: the counter began anew, as it does when the driver is loaded."), "after_mj"
        )
    return (after_mj - before_mj) / MILLIJOULES_PER_KWH


def mean_power_kwh(power_w: float, hours: float) -> float:
    """kWh of a mean power over a time."""
    inputs.not_negative(power_w=power_w)
    inputs.positive(hours=hours)
    return power_w * hours / 1000


def owned_price_per_gpu_hour(capex: float, life_hours: float, allocation_ratio: float) -> float:
    """Price of an hour of an owned GPU that is allocated that share of its life."""
    inputs.positive(capex=capex, life_hours=life_hours)
    inputs.share(allocation_ratio=allocation_ratio)
    return capex / (life_hours * allocation_ratio)


def idle_cost(idle_gpu_hours: float, price: float, idle_power_w: float, pue: float, tariff: float) -> float:
    """Money that idle GPUs cost: their hours, and the energy that they take doing nothing."""
    inputs.not_negative(idle_gpu_hours=idle_gpu_hours, price=price, idle_power_w=idle_power_w, tariff=tariff)
    _checked_pue(pue)
    return idle_gpu_hours * (price + idle_power_w * pue * tariff / 1000)


def energy(
    gpus: int,
    hours: float,
    gpu_power_w: float,
    host_power_w: float | None = None,
    pue: float | None = None,
    co2_kg_per_kwh: float | None = None,
    tariff_per_kwh: float | None = None,
    price_per_gpu_hour: float | None = None,
    units: float | None = None,
) -> Energy:
    """Energy, CO2 and cost of `gpus` GPUs at a mean power over `hours`, with the hosts' power together."""
    inputs.whole(gpus=gpus)
    if pue is not None:
        _checked_pue(pue)
    gpu_kwh = mean_power_kwh(gpus * gpu_power_w, hours)
    site_kwh = (gpu_kwh + mean_power_kwh(host_power_w or 0.0, hours)) * (pue or 1.0)
    for name, value in (
        ("co2_kg_per_kwh", co2_kg_per_kwh),
        ("tariff_per_kwh", tariff_per_kwh),
        ("price_per_gpu_hour", price_per_gpu_hour),
    ):
        if value is not None:
            inputs.not_negative(**{name: value})
    energy_cost = None if tariff_per_kwh is None else site_kwh * tariff_per_kwh
    gpu_cost = None if price_per_gpu_hour is None else gpus * hours * price_per_gpu_hour
    told = [cost for cost in (energy_cost, gpu_cost) if cost is not None]
    if units is not None:
        inputs.positive(units=units)
    return Energy(
        gpu_kwh=gpu_kwh,
        site_kwh=site_kwh,
        co2_kg=None if co2_kg_per_kwh is None else site_kwh * co2_kg_per_kwh,
        gpu_hours=gpus * hours,
        energy_cost=energy_cost,
        gpu_cost=gpu_cost,
        cost=sum(told) if told else None,
        cost_per_unit=sum(told) / units if told and units is not None else None,
        not_counted=tuple(
            text
            for absent, text in (
                (host_power_w is None, Text(_("The hosts: give host_power_w."))),
                (pue is None, Text(_("Cooling and conversion: give pue."))),
                (energy_cost is not None and gpu_cost is None, Text(_("The price of the GPUs: give price_per_gpu_hour."))),
            )
            if absent
        ),
    )


def _checked_pue(pue: float) -> None:
    inputs.positive(pue=pue)
    if not 1 <= pue <= 10:
        raise InputError(
            _("pue must be from 1 to 10, not {value}: a site takes at least what its computers do."), "pue", value=f"{pue:g}"
        )


def _parts(taken: Mapping[str, Any], _result: Energy, power_w: float) -> Mapping[str, float | None]:
    """Where the site's energy goes."""
    gpu_kwh = mean_power_kwh(taken["gpus"] * power_w, taken["hours"])
    host_kwh = mean_power_kwh(taken["host_power_w"] or 0.0, taken["hours"])
    return {"gpu_kwh": gpu_kwh, "host_kwh": host_kwh, "site_kwh": (gpu_kwh + host_kwh) * ((taken["pue"] or 1.0) - 1)}


PLANNER: Final = Planner(
    name="energy",
    title=_("Energy, CO2 and cost"),
    about=_("What a job takes from the grid, emits and costs"),
    formula=(
        _("site energy = (GPUs*power + host power)*hours*PUE"),
        _("CO2 = site energy*kg per kWh; cost = GPU-hours*price + site energy*tariff"),
    ),
    assumptions=(
        _("Power is the mean over the job; a GPU's energy counter is better where there is one (millijoules/3.6e9 are kWh)."),
        _("Host power is that of all hosts together. Money is in the currency of your prices."),
        _("A rented GPU's price mostly includes its energy: then give no tariff. An owned one's price is its cost/(hours of life*share allocated)."),
    ),
    sources=(),
    parameters=(
        Parameter("gpus", "count", _("GPUs of the job"), low=1, high=1e7, slider=(1, 4096), whole=True),
        Parameter("hours", "hours", _("How long"), low=1e-6, high=1e7, slider=(1, 2000)),
        Parameter("gpu_power_w", "watts", _("Mean power of a GPU; of a card its TDP"), low=0, high=1e5, slider=(50, 1500), of_card="tdp_w"),
        Parameter("host_power_w", "watts", _("Mean power of the hosts together"), optional=True, high=1e9, slider=(0, 10000)),
        Parameter("pue", "count", _("Power usage effectiveness of the site, 1 or more"), optional=True, low=1, high=10, slider=(1, 2)),
        Parameter("co2_kg_per_kwh", "kilograms_per_kilowatt_hour", _("CO2 of the site's power"), optional=True, high=100, slider=(0, 1)),
        Parameter("tariff_per_kwh", "count", _("Price of a kWh"), optional=True, high=1e6, slider=(0, 0.5)),
        Parameter("price_per_gpu_hour", "count", _("Price of a GPU-hour"), optional=True, high=1e6, slider=(0, 10)),
        Parameter("units", "count", _("Samples, tokens or requests done"), optional=True, low=1e-9, slider=(1, 1e12)),
    ),
    call=energy,
    result=Energy,
    example={
        "gpus": "8", "hours": "72", "gpu_power_w": "650W", "host_power_w": "2kW", "pue": "1.3", "co2_kg_per_kwh": "0.4",
        "tariff_per_kwh": "0.12", "price_per_gpu_hour": "2.5",
    },
    answers=("cost", "site_kwh", "co2_kg"),
    cautions=(
        Caution("not_counted", bool, _("What is not counted comes on top: all of it together is more than stands here.")),
    ),
    idle=(Idle(("units",), lambda taken: taken["tariff_per_kwh"] is None and taken["price_per_gpu_hour"] is None, "price_per_gpu_hour / tariff_per_kwh"),),
    plots=(
        Plot(_("Cost over the power of a GPU"), "gpu_power_w", ("gpu_cost", "energy_cost"), stacked=True),
        Plot(
            _("Energy over the power of a GPU"), "gpu_power_w",
            (Line("gpu_kwh", _("GPUs"), "kilowatt_hours"), Line("host_kwh", _("Hosts"), "kilowatt_hours"), Line("site_kwh", _("Cooling and conversion"), "kilowatt_hours")),
            stacked=True, curve=_parts,
        ),
    ),
)  # fmt: skip
