"""Every metric, and every group of metrics, taken out of every recording: what is absent is never read as zero."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl
import pytest
from msgspec.structs import replace

from advisor.engine import Evaluation, evaluate
from advisor.features import Frames, features
from advisor.finding import Finding
from advisor.frames import from_recording
from advisor.recorded import MIN_COVERAGE, MIN_S, MIN_SAMPLES, judge
from advisor.rule import load
from tests.advisor import variations
from wire.recording import Recording, read

QUICK: Final = ("loader_starved",)
"""Of the recordings that hang on what may be missing; the others take their minute among the slow tests."""
RECORDINGS: Final = sorted((Path(__file__).resolve().parents[2] / "recordings").glob("*.jsonl.gz"))
RULES: Final = {rule.id: rule for rule in load()}

GPU: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name, f"{name}_when_busy")
        for name in ("sm_occupancy", "tensor_active", "dram_active", "fp32_active", "fp64_active", "fp16_active", "int_active")
    },
    "sm_active": ("sm_active", "sm_active_when_busy", "most_sm_ratio", "most_sm_index"),
    "gpu_util_pct": ("gpu_util_pct",),
    "mem_copy_util_pct": ("mem_copy_util_pct",),
    "pcie_rx_bytes_per_s": ("pcie_rx_bytes_per_s",),
    "pcie_tx_bytes_per_s": ("pcie_tx_bytes_per_s",),
    "nvlink_rx_bytes_per_s": ("nvlink_rx_bytes_per_s",),
    "nvlink_tx_bytes_per_s": ("nvlink_tx_bytes_per_s",),
    "power_w": ("power_w", "power_share", "loaded_power_w"),
    "temperature_c": ("temperature_c", "node_temperature_c", "warmer_than_peers_c"),
    "sm_clock_mhz": ("sm_clock_mhz", "sm_clock_ratio", "sm_clock_p95_mhz", "sm_clock_p95_ratio", "sm_clock_top_mhz"),
    "mem_clock_mhz": ("mem_clock_p95_mhz", "mem_clock_p95_ratio"),
    "clocks_event_reasons": ("power_cap_share", "hw_slowdown_share", "sw_thermal_share", "thermal_slowdown_share"),
    "mem_used_bytes": (
        "mem_used_bytes", "mem_used_max_bytes", "mem_used_share", "mem_used_share_max", "mem_growth_bytes", "mem_growth_share",
        "mem_growth_bytes_per_s", "seconds_to_full",
    ),
    "pids": ("processes", "tenants", "held_bytes", "pid"),
    "gr_engine_active": (),
}  # fmt: skip
PROCESS: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu_pct": ("main_cores", "main_cores_idle"),
    "children": ("children", "worker_cores"),
    "children_cpu_pct": ("children_cores", "worker_cores"),
    "read_chars_total": ("read_bytes_per_s",),
    "write_chars_total": ("write_bytes_per_s",),
}
HOST: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu_pct_per_core": ("cpu_busy_cores", "free_cores", "cpu_core_max_pct"),
    "cpu_iowait_pct": ("iowait_cores",),
    "mem_used_bytes": ("host_mem_used_bytes", "host_mem_share"),
    "disk_read_bytes_total": ("disk_read_bytes_per_s",),
    "disk_write_bytes_total": ("disk_write_bytes_per_s",),
}
GPM: Final = tuple(name for name in GPU if name.endswith(("_active", "_occupancy", "_bytes_per_s")))
_LINKS: Final = ("pcie_share", "copy_rate_share", "nvlink_bytes_per_s", "nvlink_share")


def fed(by: Mapping[str, tuple[str, ...]], names: tuple[str, ...]) -> frozenset[str]:
    """The features that `names` alone feed."""
    return frozenset(feature for name in names for feature in by[name])


CASES: Final[dict[str, tuple[str, tuple[str, ...], frozenset[str]]]] = {
    **{f"gpus.{name}": ("gpus", (name,), fed(GPU, (name,))) for name in GPU},
    **{f"processes.{name}": ("processes", (name,), fed(PROCESS, (name,))) for name in PROCESS},
    **{f"host.{name}": ("host", (name,), fed(HOST, (name,))) for name in HOST},
    "gpm": ("gpus", GPM, fed(GPU, GPM) | frozenset(_LINKS)),
    "helpers": ("processes", ("children", "children_cpu_pct"), fed(PROCESS, ("children", "children_cpu_pct"))),
    "processes": ("processes", (), fed(PROCESS, tuple(PROCESS))),
    "host": ("host", (), fed(HOST, tuple(HOST))),
}
"""What is taken out: of which part, which names (none: the whole part), and which features cannot be known then."""


def without(recording: Recording, part: str, names: tuple[str, ...]) -> Recording:
    """`recording` less `names` of `part` in every sample."""
    if part == "processes" and not names:
        return variations.without_processes(recording)
    if part == "host":
        return replace(
            recording, samples=tuple(replace(s, host=_less(s.host, names) if names else {}) for s in recording.samples)
        )
    return replace(
        recording,
        samples=tuple(replace(s, **{part: tuple(_less(row, names) for row in getattr(s, part))}) for s in recording.samples),
    )


def _less(row: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


def shown(finding: Finding) -> frozenset[str]:
    """The features that the evidence gives values of."""
    return frozenset(line.name for line in finding.evidence)


def frames_of(recording: Recording) -> Frames:
    """The features that `judge` judges."""
    window = from_recording(recording)
    return features(window, from_start=True, min_samples=MIN_SAMPLES, min_coverage=MIN_COVERAGE, min_s=MIN_S)


def _name(path: Path) -> str:
    return path.name.split(".")[0]


@pytest.fixture(
    scope="module",
    params=[pytest.param(path, id=_name(path), marks=() if _name(path) in QUICK else pytest.mark.slow) for path in RECORDINGS],
)
def lacking(request: pytest.FixtureRequest) -> dict[str, tuple[Evaluation, Frames]]:
    """By case, what is said of one recording that lacks it, and the features that it was said by."""
    whole = variations.means(read(request.param), 1.0)
    frames = {case: frames_of(without(whole, part, names)) for case, (part, names, _) in CASES.items()}
    return {case: (evaluate(load(), of), of) for case, of in frames.items()}


def test_no_feature_of_what_is_absent_has_a_value(lacking: dict[str, tuple[Evaluation, Frames]]) -> None:
    """No sum, count or extreme of nothing is a number, of a GPU, a job or a node."""
    for case, (_, frames) in lacking.items():
        for scope, frame in (("gpu", frames.gpu), ("job", frames.job), ("node", frames.node)):
            for name in CASES[case][2] & set(frame.columns) - _of_another_scope(scope):
                assert frame.get_column(name).drop_nulls().is_empty(), (case, scope, name)


def _of_another_scope(scope: str) -> set[str]:
    return set() if scope != "node" else {"processes"}


def test_no_evidence_shows_what_was_not_measured(lacking: dict[str, tuple[Evaluation, Frames]]) -> None:
    """Neither as a line of evidence nor as a parameter of a text."""
    for case, (evaluation, _) in lacking.items():
        for finding in evaluation.findings:
            said = {name for text in (finding.title, finding.summary, finding.verify) for name in text.params}

            assert not CASES[case][2] & (shown(finding) | said), (case, finding.rule)


def test_a_rule_that_needs_what_is_absent_fires_at_low_confidence_at_most(lacking: dict[str, tuple[Evaluation, Frames]]) -> None:
    """Its best signal is gone; what stands in for it is a guess."""
    for case, (evaluation, _) in lacking.items():
        for finding in evaluation.findings:
            gone, needs = CASES[case][2], RULES[finding.rule].needs
            if gone & set(needs[0].features):
                without_profile = [need for need in needs if not any(name.startswith("profile_") for name in need.features)]
                left = [need.confidence for need in without_profile if not gone & set(need.features)]
                # Profiling counters confirm small kernels; the process's own readings tell them.
                assert left in (["low"], ["medium", "low"]), (case, finding.rule)
                assert finding.confidence in left, (case, finding.rule)
                assert finding.confidence == "low" or case in ("gpus.sm_active", "gpm"), (case, finding.rule)


def test_a_rule_that_cannot_do_without_is_listed_with_what_it_lacks(lacking: dict[str, tuple[Evaluation, Frames]]) -> None:
    """Not evaluated, on every target of its scope, by the name of the feature."""
    for case, (evaluation, frames) in lacking.items():
        gone = CASES[case][2]
        said = {(gap.rule, gap.target): set(gap.missing) for gap in evaluation.not_evaluated}
        for rule in RULES.values():
            if all(gone & set(need.features) for need in rule.needs):
                frame: pl.DataFrame = getattr(frames, rule.scope)
                held = frame.filter(~pl.col("free")) if "free" in frame.columns else frame
                for target in held.get_column(rule.scope).cast(pl.String):
                    missing = said.get((rule.id, target), set())
                    assert missing & gone or missing == {"samples"}, (case, rule.id, target)


def test_no_text_says_unknown_values(lacking: dict[str, tuple[Evaluation, Frames]]) -> None:
    """A sentence is chosen that can do without."""
    for case, (evaluation, _) in lacking.items():
        for finding in evaluation.findings:
            texts = [finding.title, finding.summary, finding.risk, finding.rollback, finding.verify]
            texts += [finding.expected_gain.basis] if finding.expected_gain else []
            spoken = [text.english() for text in texts]
            spoken += [change.text for change in finding.change if "(None" not in change.text]  # an argument in code

            assert not [one for one in spoken if "?" in one or "None" in one or "nan" in one.split()], (case, finding.rule)


def test_a_save_whose_writes_nobody_recorded_is_not_taken_for_slow_copies() -> None:
    """Copies to the host look alike: low confidence, no advice on copies, and the reason in words."""
    whole = read(next(path for path in RECORDINGS if path.name.startswith("ckpt_stall")))
    judgement = judge(variations.without_processes(whole))

    assert judgement.diagnosis.confidence == "low"
    assert "h2d-unpinned-copy" not in {one.rule for one in judgement.evaluation.findings}
    assert judgement.note is not None
    assert "writes was not recorded" in judgement.note
