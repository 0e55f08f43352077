"""A site's own conditions: what is one, and what is refused with which sentence."""

from pathlib import Path

import polars as pl
import pytest

from advisor.conditions import FUNCTIONS, SCOPES, ConditionError, columns, condition, of_now
from advisor.expression_tree import compared, needed
from advisor.finding import Scope
from advisor.kinds import kind
from tests.advisor.rules.cases import frames


@pytest.mark.parametrize(
    ("sql", "readings", "holds"),
    [
        ("busy >= 0.9 AND sm_active < 0.2", {"sm_active": 0.1}, True),
        ("busy >= 0.9 AND sm_active < 0.2", {"sm_active": 0.3}, False),
        ("busy BETWEEN 0.1 AND 0.5 OR tenants IN (2, 3)", {"tenants": 2}, True),
        ("NOT (free OR serves) AND bottleneck LIKE 'comp%'", {}, True),
        ("COALESCE(sm_active, 1) < 0.5", {"sm_active": None}, False),
        ("sm_active < 0.5", {"sm_active": None}, None),
        ("sm_active IS NULL", {"sm_active": None}, True),
        ("children / NULLIF(cores, 0) > 0.2", {}, True),
        ("children / NULLIF(cores, 0) > 0.2", {"cores": 0.0}, None),
        ("power_w / 700 > 0.9", {}, True),
        ("CASE WHEN temperature_c > 40 THEN power_w > 600 ELSE FALSE END", {}, True),
        ("GREATEST(sm_active, dram_active) > 0.8 AND LEAST(busy, 1) < 1", {}, True),
        ("IF(processes > 1, busy > 0.99, LOWER(bottleneck) = 'compute')", {}, True),
        ("STARTS_WITH(compute_capability, '9.') AND LENGTH(compute_capability) = 3", {}, True),
        ("mem_used_bytes > 7e10 AND ROUND(ABS(-busy), 1) = 1 AND busy > FLOOR(0.5)", {}, True),
    ],
)
def test_a_condition_judges_each_row(sql: str, readings: dict[str, object], holds: bool | None) -> None:
    """True, false, or null where what it asks for was not measured."""
    row = frames(**readings).gpu

    assert row.select(condition(sql, "gpu")).item() is holds


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("bizy > 1", "no feature bizy (character 1). Do you mean busy"),
        ("BUSY > 1", "no feature BUSY"),
        ("gpu = 1", "no feature gpu"),
        ("read_csv('/etc/passwd') = 1", "no function read_csv here (character 1). There are: ABS"),
        ("busy IN (SELECT busy FROM read_csv('/etc/passwd'))", "no feature SELECT (character 10)"),
        ("busy = (SELECT 1)", "SELECT"),
        ("AVG(busy) > 0.5", "no function AVG"),
        ("SUM(busy) OVER (PARTITION BY name) > 1", "no function SUM"),
        ("COLUMNS('.*') > 1", "no function COLUMNS"),
        ("CAST(busy AS INT) > 1", "no function CAST"),
        ("busy::int > 1", "“::int” at character 5"),
        ("name ~ '(a+)+$'", "“~” at character 6"),
        ("name || name = 'x'", "“||” at character 6"),
        ("node.name = 'x'", "no feature node"),
        ('"busy" > 1', '“"busy"” at character 1'),
        ("'; DROP TABLE x; --", "“';” at character 1"),
        ("busy > 1; DROP TABLE x", "“;” at character 9"),
        ("busy > 1 -- and no more", "“--” at character 10"),
        ("busy /* busy */ > 1", "“/*” at character 6"),
        ("busy > 1\x00", "“U+0000” at character 9"),
        ("\u202ebusy > 1", "“U+202E"),
        ("ｂｕｓｙ > 1", "“ｂｕｓｙ” at character 1"),
        ("busy \u2265 1", "“≥” at character 6"),
        ("name = 'a\u202eb'", "string at character 8 holds control characters"),
        ("name = '" + "x" * 300 + "'", "longer than 200"),
        ("x" * 1_000_000, "1000000 characters; up to 2000"),
        ("(" * 30 + "busy > 1" + ")" * 30, "nested more than 20 deep"),
        ("NOT " * 290 + "free", "nested more than 20 deep"),
        ("- " * 290 + "busy > 1", "nested more than 20 deep"),
        ("CASE WHEN free THEN " * 30, "nested more than 20 deep"),
        ("busy" + " + busy" * 200 + " > 1", "more than 300 words"),
        ("busy > ", "not an SQL expression"),
        ("busy IN ()", "not an SQL expression"),
        ("1 = 1", "names no feature"),
        ("busy", "gives a number"),
        ("name", "gives text"),
        ("name > 3", "name is text, and 3 is none: the two cannot be compared"),
        ("busy = 'H200'", "'H200' is text, and busy is none"),
        ("name BETWEEN 1 AND 2", "name is text, and 2 is none"),
        ("name IN (1, 2)", "name is text, and (…) is none"),
        ("busy IN ('a', 'b')", "(…) is text, and busy is none"),
        ("LOWER(name) = 3", "(…) is text, and 3 is none"),
        ("NOT name", "name is text, neither true nor false"),
        ("busy > 1 AND name", "name is text, neither true nor false"),
        ("name + 1 > 2", "name is text: nothing can be computed with it"),
        ("busy / 0 > 1", "NULLIF"),
        ("busy / cores > 1", "NULLIF"),
        ("busy % processes > 1", "NULLIF"),
        ("busy / COALESCE(cores, 0) > 1", "NULLIF"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_sentence(sql: str, says: str) -> None:
    """The sentence names the word and its place."""
    with pytest.raises(ConditionError) as refused:
        condition(sql, "gpu")

    assert says in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_file_is_not_opened_while_it_is_refused(tmp_path: Path) -> None:
    """Polars opens it while it parses, so the text must be refused before Polars has it."""
    sql = f"busy IN (SELECT busy FROM read_csv('{tmp_path}/nothing.csv'))"
    with pytest.raises(FileNotFoundError):
        pl.sql_expr(sql)

    with pytest.raises(ConditionError, match="no feature SELECT"):
        condition(sql, "gpu")


@pytest.mark.parametrize("scope", SCOPES)
def test_every_column_of_a_scope_can_be_named(scope: Scope) -> None:
    """The list that people see is what they can write."""
    listed = columns(scope)

    assert {"gpu", "node", "service", "members", "evaluated"}.isdisjoint(listed)
    for name in listed:
        condition(f"{name} IS NOT NULL", scope)


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("gpu", {"note_deadline", "day_idle_share", "bench_ratio", "xids_24h", "driver_major", "partition", "gpu_hour_price"}),
        (
            "job",
            {"told_dtype", "flag_tensor_parallel_size", "note_deadline", "day_power_share", "base_step_time_s", "torch", "run_s"},
        ),
        ("node", {"note_maintenance", "day_cpu_saturated_share", "base_disk_await_s", "xids_7d", "rdma_ready"}),
        ("service", {"base_e2e_s", "flag_max_num_seqs", "note_ttft_slo_s", "told_quant", "ttft_s", "requests_running"}),
    ],
)
def test_what_is_told_and_what_takes_days_can_be_named(scope: Scope, names: set[str]) -> None:
    """Flags, descriptions, annotations, days and earlier runs stand where the frames of the fleet have them."""
    assert names <= columns(scope).keys()


@pytest.mark.parametrize("scope", SCOPES)
def test_a_feature_has_the_type_that_it_has_when_nothing_told_it(scope: Scope) -> None:
    """A condition that was checked with one type would fail in a judgement with another."""
    for name, type_ in columns(scope).items():
        absent = kind(name)
        assert absent == type_ or (absent.is_numeric() and type_.is_numeric()), name


def test_what_is_known_of_now_alone_is_told_apart() -> None:
    """What a window of the past has of its own is not among it; nor are the site's constants."""
    assert {"note_deadline", "base_step_time_s", "day_power_share", "told_phase", "partition"} <= of_now("job")
    assert of_now("job").isdisjoint({"busy", "flag_tensor_parallel_size", "torch", "psi_io_some_pct", "gpu_hour_price", "job"})
    assert {"base_e2e_s", "note_ttft_slo_s"} <= of_now("service")
    assert of_now("service").isdisjoint({"ttft_s", "requests_running", "flag_max_num_seqs"})
    assert {"day_idle_share", "bench_ratio"} <= of_now("gpu")
    assert "persistence_mode" not in of_now("gpu")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_of_the_list_is_known_to_polars(function: str) -> None:
    """What the list promises parses and computes."""
    taking = {
        "COALESCE": "busy, 0", "GREATEST": "busy, 0", "LEAST": "busy, 0", "NULLIF": "busy, 0", "ROUND": "busy, 1",
        "IF": "free, busy, 0", "LENGTH": "name", "LOWER": "name", "UPPER": "name", "STARTS_WITH": "name, 'N'",
        "ENDS_WITH": "name, '0'",
    }  # fmt: skip
    call = f"{function}({taking.get(function, 'busy')})"

    assert isinstance(condition(f"{call} IS NOT NULL", "gpu"), pl.Expr)


def test_it_tells_what_must_be_measured_and_what_numbers_it_compares_with() -> None:
    """What bears absence need not be there; evidence shows the numbers."""
    asked = condition("busy < 0.25 AND COALESCE(sm_active, 1) <= 1e-3 AND tenants IS NOT NULL AND main_cores >= 2", "gpu")

    assert needed(asked) == ("busy", "main_cores")
    assert compared(asked) == {"busy": ("<", 0.25), "main_cores": (">=", 2.0)}
