"""Buckets that a server makes of an exporter's series: those of the scrapes, whoever had the GPU meanwhile."""

from collections.abc import Iterator

import pytest

from fleet.inventory.models import PROMETHEUS, Gpu, Node
from fleet.store.endpoint import Access, Endpoint
from fleet.store.prometheus import RAW_S, PrometheusSeries
from tests.fleet.store.exporter import HOLDERS, UUID, history, holding, labels
from tests.fleet.store.servers import Program

pytestmark = pytest.mark.django_db

HOUR = 3600
T = 1_790_000_000 // (3 * HOUR) * 3 * HOUR
STEP = 30
WANTED = ("power_w", "energy_j_total", "pstate", "sm_active")


def past() -> str:
    """Six hours of a GPU that one pod after another has; its exporter is started anew, and the card's counter with it."""
    of = {
        "first": labels(0, pod="zebra", instance="10.0.0.9:9400"),
        "second": labels(0, pod="ant", instance="10.0.0.9:9400"),
        "third": labels(0, pod="bee", instance="10.0.0.1:9400"),
        "beside": labels(0, pod="cat", instance="10.0.0.1:9400"),
    }
    spans = {"first": (0, 4000), "second": (4000, 9000), "third": (9300, 6 * HOUR), "beside": (15_000, 6 * HOUR)}
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for key, (start, end) in spans.items():
        times = [T + second + 0.25 for second in range(start, end, STEP)]
        energy = [(2_000_000 if at < T + 9300 else 0) + (at - T) * 1000 for at in times]
        for name, values in {
            "DCGM_FI_DEV_POWER_USAGE": [100.0 + (at - T) // 100 for at in times],
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy,
            "DCGM_FI_DEV_PSTATE": [float((at - T) // 700 % 9) for at in times],
            "DCGM_FI_PROF_SM_ACTIVE": [((at - T) // 300 % 10) / 10 for at in times],
        }.items():
            series[name, key] = list(zip(times, values, strict=True))
    return history(series, of)


@pytest.fixture(scope="module", params=HOLDERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A Prometheus that holds `past`, and a VictoriaMetrics that was filled as by a Prometheus."""
    with holding(request.param, tmp_path_factory.mktemp("past"), past()) as program:
        yield program


@pytest.mark.parametrize("step_s", [600, HOUR, 3 * HOUR])
def test_the_servers_buckets_are_those_of_the_scrapes(server: Program, step_s: int) -> None:
    """Mean, least, most and newest over all series of the GPU: not of the first of them, nor the highest of their last values."""
    gpu = Gpu.objects.create(node=Node.objects.create(name="n", source=PROMETHEUS), uuid=f"{UUID}0", index=0)
    engine = PrometheusSeries(Endpoint(server.url, Access(), "Prometheus"))
    end = T + RAW_S + 12 * HOUR
    told = engine.series("gpu", gpu.pk, WANTED, T, end, step_s)
    truth = engine.series("gpu", gpu.pk, WANTED, T, end, step_s, full=True).select(told.columns)

    assert told["ts"].to_list() == truth["ts"].to_list() == list(range(T, T + 6 * HOUR, step_s))
    before_the_pods_shared_it = told["ts"] < T + 10_800
    for name in told.columns:
        alike = name.endswith(("_min", "_max")) or name in ("energy_j_total", "pstate") or None
        some = [frame[name] if alike else frame[name].filter(before_the_pods_shared_it) for frame in (told, truth)]
        assert some[0].to_list() == pytest.approx(some[1].to_list(), rel=1e-6, abs=1e-4), name


def test_of_what_no_exporter_tells_there_is_no_bucket(server: Program) -> None:
    """A metric that DCGM has no field of, and one whose field nobody gives."""
    gpu = Gpu.objects.create(node=Node.objects.create(name="n", source=PROMETHEUS), uuid=f"{UUID}0", index=0)
    engine = PrometheusSeries(Endpoint(server.url, Access(), "Prometheus"))

    for name in ("nvlink_links_active", "temperature_c"):
        assert engine.series("gpu", gpu.pk, [name], T, T + RAW_S + HOUR, HOUR).is_empty()
