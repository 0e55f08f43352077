"""The types of features that nothing was measured for."""

import polars as pl
import pytest

from advisor.kinds import FLAGS, TEXT, kind
from tests.advisor.rules.cases import HEALTHY, SERVICE


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("scheduler", pl.String()), ("env_NCCL_P2P_DISABLE", pl.String()), ("told_offload", pl.Boolean()), ("step_time_s", pl.Float64()),
     ("flag_kv_cache_dtype", pl.String()), ("flag_enforce_eager", pl.Boolean()), ("flag_of_a_newer_agent", pl.Null())],
)  # fmt: skip
def test_what_is_absent_has_the_type_of_its_feature(name: str, dtype: pl.DataType) -> None:
    """Text, flag, number; of a command's flag as its registry says, where it has it."""
    assert kind(name) == dtype


def test_a_feature_is_text_or_a_flag_and_readings_agree() -> None:
    """A healthy job's values have the types that absent ones get."""
    assert not TEXT & FLAGS
    for name, value in (HEALTHY | SERVICE).items():
        if isinstance(value, str | bool):
            assert kind(name) == (pl.Boolean() if isinstance(value, bool) else pl.String()), name
        elif value is not None and not isinstance(value, list):
            assert kind(name) == pl.Float64(), name
