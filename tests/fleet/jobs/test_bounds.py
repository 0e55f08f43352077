"""Short texts that stand for very many names cost what a long one may, and no more."""

import pytest

from fleet.jobs.devices import MOST_DEVICES, DeviceError, devices
from fleet.jobs.hosts import MOST_HOSTS, hosts


@pytest.mark.parametrize(
    "text",
    [
        "a[" + ",".join(["0-4095"] * 400) + "]",
        ",".join(["a[0-4095]"] * 400),
        "a" + "[0-4095]" * 20,
        "a[0-4095][0-1]",
        "a[" + ",".join(["7"] * (MOST_HOSTS + 1)) + "]",
    ],
)
def test_a_list_of_nodes_spells_no_more_than_it_may_name(text: str) -> None:
    """What is named again counts too: in three thousand characters there is room for a million names."""
    with pytest.raises(DeviceError, match="at most 4096 nodes"):
        hosts(text)


def test_a_list_of_nodes_may_name_as_many_as_it_may() -> None:
    """To the last."""
    assert len(hosts("a[0-4095]")) == MOST_HOSTS
    assert len(hosts("a[0-63]b[0-63]")) == MOST_HOSTS
    assert hosts("a1,a1,a[1-2]") == ("a1", "a2")


@pytest.mark.parametrize("text", ["0-1023," * 10_000, "0," * 20_000, ["gpu:8(IDX:0-1023)"] * 1000])
def test_a_list_of_devices_spells_no_more_than_four_times_what_it_may_name(text: str | list[str]) -> None:
    """A list that names some twice is read; one that does nothing else is not."""
    with pytest.raises(DeviceError, match="at most 1024 devices"):
        devices(text)


def test_a_list_of_devices_may_name_some_twice() -> None:
    """Each counts once."""
    assert devices("0-1023,0-1023").total == MOST_DEVICES
