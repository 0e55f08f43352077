"""The table of DCGM's names keeps up with the registry."""

import pytest

from wire import dcgm_fields
from wire.dcgm_fields import BY_NAME
from wire.metrics import METRICS, Metric


@pytest.mark.parametrize("metric", [m for m in METRICS if m.dcgm is not None and m.scope == "gpu"], ids=lambda m: m.name)
def test_every_metric_with_a_dcgm_field_has_its_names_and_its_unit(metric: Metric) -> None:
    """A new row of the registry is read from an exporter, or this test asks for its line in the table."""
    fields = [field for field in BY_NAME.values() if field.id == metric.dcgm]

    assert fields, f"field {metric.dcgm} is not in wire/dcgm_fields.py"
    for field in fields:
        assert dcgm_fields.scale(field.unit, metric) is not None, f"nothing turns {field.unit} into {metric.unit}"


def test_names_of_old_and_new_releases_stand_for_one_field() -> None:
    """The names of 4.6 come first; those before it still count."""
    assert dcgm_fields.names(155) == ("DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_POWER_USAGE")
    assert dcgm_fields.names(1523) == ("DCGM_FI_DEV_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION")
    assert dcgm_fields.names(99999) == ()


def test_a_unit_that_does_not_fit_is_refused() -> None:
    """Degrees are no watts, whatever the names say."""
    power = next(metric for metric in METRICS if metric.name == "power_w")

    assert dcgm_fields.scale("celsius", power) is None
    assert dcgm_fields.scale("mib", power) is None
