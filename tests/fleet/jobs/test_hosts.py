"""Lists of nodes as Slurm writes them."""

import pytest

from fleet.jobs.devices import DeviceError
from fleet.jobs.hosts import MOST_HOSTS, hosts, nodes
from tests.fleet.rows import node


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ("n1", ["n1"]),
        ("n1,n2", ["n1", "n2"]),
        ("gpu[01-03,7],login1", ["gpu01", "gpu02", "gpu03", "gpu7", "login1"]),
        ("gpu[098-101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
        ("tux[0-1]-ib", ["tux0-ib", "tux1-ib"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n1,n1", ["n1"]),
        ("gpu-12.site.example", ["gpu-12.site.example"]),
        (" ", []),
        ("(null)", []),
        ("None assigned", []),
    ],
)
def test_every_list_is_read(told: str, names: list[str]) -> None:
    """Each name once, with its leading zeros."""
    assert list(hosts(told)) == names


@pytest.mark.parametrize(
    "told", ["n[1-", "n1]", "n[]", "n[a]", "n[3-1]", "a b", "n1,,n2", "n1,", "-n", "n\x00", "n[1-9][1-", "n[[1]]"]
)
def test_what_is_no_list_is_refused(told: str) -> None:
    """A cut list must not become fewer nodes."""
    with pytest.raises(DeviceError, match="list of nodes"):
        hosts(told)


@pytest.mark.parametrize("told", [f"n[0-{MOST_HOSTS}]", "n[1-99][1-99]", "n[0-999999999]"])
def test_a_list_has_a_bound(told: str) -> None:
    """Short texts can name millions."""
    with pytest.raises(DeviceError):
        hosts(told)


@pytest.mark.django_db
def test_nodes_are_found_with_and_without_their_domain_and_in_capitals() -> None:
    """Schedulers and agents need not agree on either; where two would fit, neither does, but for one of that very name."""
    short, long = node("gpu1"), node("gpu2.site.example")
    node("gpu3.a")
    node("gpu3.b")
    capitals = node("GPU5")
    low, high = node("gpu6"), node("GPU6")

    found = nodes(["gpu1", "gpu1.site.example", "gpu2", "gpu2.site.example", "gpu2.elsewhere", "gpu3", "gpu4"])
    spelled = nodes(["GPU1.Site.Example", "GPU2", "GPU2.SITE.example", "GPU3", "gpu5", "gpu6", "GPU6", "Gpu6"])

    assert found == {"gpu1": short, "gpu1.site.example": short, "gpu2": long, "gpu2.site.example": long}
    assert spelled == {
        "GPU1.Site.Example": short, "GPU2": long, "GPU2.SITE.example": long, "gpu5": capitals, "gpu6": low, "GPU6": high,
    }  # fmt: skip
