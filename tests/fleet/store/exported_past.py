"""Ten minutes of two machines as dcgm-exporter tells of them, for tests of what is read back."""

from tests.fleet.store.exporter import history, labels

T = 1_790_000_000 // 60 * 60
STEP = 15
POINTS = 40
END = T + STEP * POINTS
BLANK = 9223372036854775792.0
NO_SHARE = 140737488355328.0
"""How DCGM says "no value" in whole numbers, and in fractions."""


def times(count: int = POINTS, late: float = 0.25) -> list[float]:
    """The scrapes' times: never on a whole second."""
    return [T + STEP * k + late for k in range(count)]


def past() -> str:
    """Ten minutes of two machines: old names on one, new ones on the other; blanks, a GPU that ended, one that is split."""
    new = labels(2, "node-2")
    new["hostname"] = new.pop("Hostname")
    of = {
        "busy": labels(0, pod="train-0", namespace="ml"),
        "shared": labels(0, pod="other", namespace="ml"),
        "said": labels(0, err_code="79", err_msg="GPU has fallen off the bus"),
        "gone": labels(1),
        "new": new,
        "part1": labels(3, GPU_I_PROFILE="1g.18gb", GPU_I_ID="7"),
        "part2": labels(3, GPU_I_PROFILE="3g.71gb", GPU_I_ID="1"),
        "link": labels(0, nvlink="4"),
    }
    series: dict[tuple[str, str], list[tuple[float, float]]] = {
        ("DCGM_FI_DEV_POWER_USAGE", "busy"): [(at, 500.25 + k) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_POWER_USAGE", "shared"): [(at, 500.25 + k) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_POWER_USAGE", "link"): [(at, 7.0) for at in times()],
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "busy"): [(at, 1_000_500.0 + 7_500_000 * k) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_FB_USED", "busy"): [(at, 1024.0) for at in times()],
        ("DCGM_FI_DEV_FB_FREE", "busy"): [(at, 140_000.0) for at in times()],
        ("DCGM_FI_DEV_FB_RESERVED", "busy"): [(at, 500.0) for at in times()],
        ("DCGM_FI_PROF_SM_ACTIVE", "busy"): [(at, 1.0003 if k == 3 else 0.5) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_GPU_TEMP", "busy"): [(at, BLANK if k == 5 else 61.0) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "busy"): [(at, 1.0) for at in times()],
        ("DCGM_FI_DEV_XID_ERRORS", "busy"): [(at, 0.0) for at in times(36)],
        ("DCGM_FI_DEV_XID_ERRORS", "said"): [(at, 79.0) for at in times()[36:]],
        ("DCGM_FI_DEV_XID_ERROR", "new"): [(at, 43.0) for at in times(late=0.75)],
        ("DCGM_FI_DEV_POWER_USAGE", "gone"): [(at, 75.0) for at in times(10)],
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "new"): [(at, 76.21) for at in times(late=0.75)],
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", "new"): [(at, 96.0) for at in times(late=0.75)],
        ("DCGM_FI_PROF_SM_UTIL_RATIO", "new"): [(at, 0.0) for at in times(late=0.75)],
        ("DCGM_FI_DEV_POWER_USAGE", "part1"): [(at, 300.0) for at in times()],
        ("DCGM_FI_DEV_POWER_USAGE", "part2"): [(at, 300.0) for at in times()],
        ("DCGM_FI_PROF_SM_ACTIVE", "part1"): [(at, 0.7) for at in times()],
        ("DCGM_FI_PROF_SM_ACTIVE", "part2"): [(at, NO_SHARE if k == 4 else 0.35) for k, at in enumerate(times())],
        ("DCGM_FI_DEV_FB_USED", "part1"): [(at, 1000.0) for at in times()],
        ("DCGM_FI_DEV_FB_USED", "part2"): [(at, 2000.0) for at in times()],
    }  # fmt: skip
    return history(series, of)
