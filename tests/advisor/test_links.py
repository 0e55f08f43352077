"""The peak that NVLink traffic is compared with, where the card does not tell it."""

from dataclasses import replace

import polars as pl
import pytest

from advisor.engine import evaluate
from advisor.features import features
from advisor.frames import from_recording
from advisor.links import nvlink_rate
from advisor.rule import load
from advisor.samples import facts_of
from tests.advisor.invented import CASES
from tests.advisor.programs import record


@pytest.mark.parametrize(
    ("capability", "links", "told", "peak"),
    [
        ("9.0", 18, 26.562e9, 18 * 26.562e9),
        ("9.0", 18, None, 18 * 25e9),
        ("10.0", 18, None, 18 * 50e9),
        ("10.3", 18, None, 18 * 50e9),
        ("8.0", 12, None, 12 * 25e9),
        ("8.6", 4, None, None),
        ("13.0", 18, None, None),
        (None, 18, None, None),
        ("13.0", 18, 100e9, 18 * 100e9),
        ("9.0", 0, None, None),
        ("9.0", None, None, 300e9),
    ],
)
def test_the_peak_is_the_cards_or_its_generations(
    capability: str | None, links: int | None, told: float | None, peak: float | None
) -> None:
    """Links of an unknown speed have no peak; where nobody told of links, twelve of the third generation stand in."""
    window = from_recording(record(CASES["gradients over NVLink"].program))
    facts = window.facts.with_columns(
        compute_capability=pl.lit(capability, pl.String),
        nvlink_links=pl.lit(links, pl.Float64),
        nvlink_bytes_per_s_per_link=pl.lit(told, pl.Float64),
    )
    window = replace(window, facts=facts)

    assert facts_of(window)["nvlink_peak"].to_list() == [peak] * 4
    row = features(window).gpu.row(0, named=True)
    assert row["nvlink_share"] == (None if peak is None else pytest.approx(row["nvlink_bytes_per_s"] / peak))


def test_the_page_names_the_speed_that_the_advisor_takes() -> None:
    """One source for both."""
    assert (nvlink_rate("10.0", None), nvlink_rate("10.0", 53e9), nvlink_rate("8.6", None), nvlink_rate(None, None)) == (
        50e9,
        53e9,
        None,
        None,
    )


@pytest.mark.parametrize(("case", "said"), [("gradients over NVLink", None), ("gradients over PCIe", "low")])
def test_nvlink_without_a_peak_is_no_verdict_on_communication(case: str, said: str | None) -> None:
    """What PCIe shows is still told, at low confidence; nothing is said of NVLink traffic."""
    window = from_recording(record(CASES[case].program))
    facts = window.facts.with_columns(
        compute_capability=pl.lit("13.0"), nvlink_links=pl.lit(18.0), nvlink_bytes_per_s_per_link=pl.lit(None, pl.Float64)
    )
    found = {one.rule: one for one in evaluate(load(), features(replace(window, facts=facts))).findings}

    told = found.get("comm-not-overlapped")
    assert (told and told.confidence) == said
    assert told is None or "nvlink_share" not in {shown.name for shown in told.evidence if shown.value is not None}
