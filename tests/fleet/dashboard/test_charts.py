"""Figures: gaps stay gaps, absent lines are left out, units are scaled once."""

import polars as pl
import pytest
from plotly.graph_objects import Figure

from fleet.dashboard import charts
from wire.metrics import BY_KEY, of


def test_a_bucket_without_a_sample_is_null_and_no_line_joins_over_it() -> None:
    """The chart of a node that was silent shows a hole."""
    frame = pl.DataFrame({"ts": [1000, 1010, 1040], "sm_active": [0.5, 0.6, 0.7]})

    trace = charts.gpu_figures(frame, 1000, 1050, 10)["activity"]["data"][0]

    assert trace["y"] == [0.5, 0.6, None, None, 0.7]
    assert trace["connectgaps"] is False
    assert (trace["x0"], trace["dx"]) == ("1970-01-01 00:16:40", 10_000)


def test_a_sample_alone_between_gaps_is_a_dot() -> None:
    """A line needs two points; one must not vanish."""
    frame = pl.DataFrame({"ts": [1000, 1010, 1040], "sm_active": [0.5, 0.6, 0.7]})

    dotted, plain = (charts.gpu_figures(part, 1000, 1050, 10)["activity"]["data"][0] for part in (frame, frame[:2]))

    assert dotted["marker"]["size"] == [0, 0, 0, 0, 5]
    assert plain["mode"] == "lines"


def test_a_metric_without_any_value_has_no_line() -> None:
    """A line of nulls would show a name in the legend and say nothing."""
    frame = pl.DataFrame({"ts": [0, 10], "sm_active": [0.1, 0.2], "tensor_active": pl.Series([None, None], dtype=pl.Float64)})

    figures = charts.gpu_figures(frame, 0, 20, 10)

    assert [trace["name"] for trace in figures["activity"]["data"]] == ["SM active"]
    assert figures["temperature"]["data"] == []


def test_units_are_scaled_for_the_axis() -> None:
    """Percent becomes a share, bytes GiB, traffic GB/s."""
    frame = pl.DataFrame(
        {"ts": [0], "gpu_util_pct": [50.0], "mem_used_bytes": [3 << 30], "pcie_rx_bytes_per_s": [2.5e9], "sm_clock_mhz": [1755.0]}
    )

    figures = charts.gpu_figures(frame, 0, 10, 10)

    assert figures["activity"]["data"][0]["y"] == [0.5]
    assert figures["activity"]["layout"]["yaxis"]["range"] == [0, 1.04]
    assert figures["memory"]["data"][0]["y"] == [3]
    assert figures["traffic"]["data"][0]["y"] == [2.5]
    assert figures["power"]["data"][0]["yaxis"] == "y2"


def test_an_empty_frame_draws_nothing_and_does_not_fail() -> None:
    """A GPU of which nothing is stored still has a page."""
    figures = charts.gpu_figures(pl.DataFrame({"ts": []}, schema={"ts": pl.Int64}), 0, 3600, 10)

    assert set(figures) == {chart.slug for chart in charts.GPU_CHARTS}
    assert all(figure["data"] == [] for figure in figures.values())


def test_every_charted_metric_is_in_the_registry_with_a_known_form() -> None:
    """A chart of a metric nobody measures would stay empty for ever."""
    assert all(BY_KEY[f"gpu.{name}"].unit in charts.FORMS for name in charts.GPU_METRICS)
    assert len({chart.slug for chart in charts.GPU_CHARTS}) == len(charts.GPU_CHARTS)


@pytest.mark.parametrize(
    ("top", "step"), [(2059.2, 500), (1.04, 0.2), (146, 20), (728, 200), (90, 20), (62.5, 20), (1.04e-9, 2e-10), (3.1, 1)]
)
def test_ticks_stand_at_round_numbers(top: float, step: float) -> None:
    """A clock axis reads 500 and 1,000 MHz, not 566 and 1,131."""
    assert charts.even_step(top) == pytest.approx(step)
    assert 3 <= top / charts.even_step(top) <= 8


def test_each_axis_has_ticks_of_its_own() -> None:
    """Plotly lays a second axis's ticks where the first one's are, unless told."""
    frame = pl.DataFrame({"ts": [0], "power_w": [692.0], "sm_clock_mhz": [1980.0]})

    layout = charts.gpu_figures(frame, 0, 10, 10)["power"]["layout"]

    assert [(layout[axis]["tickmode"], layout[axis]["dtick"]) for axis in ("yaxis", "yaxis2")] == [
        ("linear", 200),
        ("linear", 500),
    ]


def test_evidence_has_one_line_an_entity_and_marks_the_moments() -> None:
    """Eight GPUs are eight lines, told apart by dash and colour slot."""
    lines = [(f"GPU {index}", pl.DataFrame({"ts": [0], "sm_active": [0.1 * index]})) for index in range(3)]

    figure = charts.evidence_figure("gpu", "sm_active", lines, (0, 20, 10), {"opened": 10})

    assert [trace["name"] for trace in figure["data"]] == ["GPU 0", "GPU 1", "GPU 2"]
    assert len({trace["line"]["dash"] for trace in figure["data"]}) == 3
    assert figure["layout"]["annotations"][0]["text"] == "opened"
    assert figure["layout"]["annotations"][0]["yanchor"] == "bottom"  # above the lines, not among them
    assert figure["layout"]["shapes"][0]["x0"] == "1970-01-01 00:00:10"


def test_plotly_itself_accepts_every_figure() -> None:
    """The dicts obey Plotly's own schema: a misspelt attribute would be ignored by the browser without a word."""
    ts = list(range(1000, 1600, 10))
    readings = {metric.name: [metric.low + 0.5] * len(ts) for metric in of("gpu") if metric.kind != "vector"}
    frame = pl.DataFrame({"ts": ts, **readings}, schema_overrides=dict.fromkeys(readings, pl.Float64))

    figures = charts.gpu_figures(frame, 1000, 1600, 10)

    assert all(len(Figure(figure).data) == len(figure["data"]) > 0 for figure in figures.values())
