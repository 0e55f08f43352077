"""Split GPUs and mixed nodes (D07, D08, D09): what is not a slice's own is absent there, and no slice is taken for another."""

import copy
import json
from pathlib import Path

import pytest

from tests.agents.driven import ANSWERS, Driver, absent, agent, latest, once, texts, ticks
from tests.agents.server import running, until

MIG = "h100-mig-driver-550.json"


def cards(board: str) -> list[dict[str, object]]:
    """The answers of another board's GPUs."""
    found: list[dict[str, object]] = json.loads((ANSWERS / board).read_text())["gpus"]
    return found


async def test_a_slice_has_no_utilisation_and_its_own_sm_activity_stands_for_it(tmp_path: Path) -> None:
    """D08: never the whole card's, never 0; the metric that is told bears its own name, so nobody takes it for utilisation."""
    driver = Driver(tmp_path / "answers.json", MIG)
    for percent, instance in zip((80.0, 20.0), filter(None, driver.gpus[0]["instances"]), strict=True):
        instance["gpm"]["2"] = percent
    driver.save()
    card, large, small = (await once(driver))["gpus"]

    assert card["absent"]["gpu_util_pct"] == "unsupported"
    for one in (large, small):
        assert one["absent"]["gpu_util_pct"] == one["absent"]["mem_copy_util_pct"] == "unsupported"
    assert (large["sm_active"], small["sm_active"]) == (pytest.approx(0.8), pytest.approx(0.2))


async def test_a_mixed_node_has_the_capabilities_of_each_device(tmp_path: Path) -> None:
    """D09: a split H100, a whole H200 and a T4 side by side: what one lacks is not taken from the others."""
    driver = Driver(tmp_path / "answers.json", MIG)
    driver.answers["gpus"] += [cards("h200-driver-580.json")[0], cards("t4-driver-525.json")[0]]
    driver.save()
    found = {gpu["name"]: gpu for gpu in (await once(driver))["gpus"]}
    h200, t4 = found["NVIDIA H200"], found["Tesla T4"]

    assert len(found) == 5
    assert h200["gpu_util_pct"] is not None
    assert h200["sm_active"] is not None
    assert t4["gpu_util_pct"] is not None
    assert t4["absent"]["sm_active"] == t4["absent"]["memory_temperature_c"] == "unsupported"
    assert [gpu["index"] for gpu in found.values() if "MIG" not in gpu["name"]] == [0, 1, 2]
    assert [gpu["index"] for gpu in found.values() if "MIG" in gpu["name"]] == [100, 101]


async def test_an_instance_without_a_uuid_is_left_out_and_old_names_have_their_profile(tmp_path: Path) -> None:
    """D07: a nil UUID names no instance; a driver that does not write the profile into the name is known by the slice's size."""
    driver = Driver(tmp_path / "answers.json", MIG)
    _, _, last = driver.gpus[0]["instances"]
    first = next(instance for instance in driver.gpus[0]["instances"] if instance)
    first["uuid"] = "MIG-00000000-0000-0000-0000-000000000000"
    last["calls"]["nvmlDeviceGetName()"] = "NVIDIA H100 80GB HBM3"
    last["name"] = "NVIDIA H100 80GB HBM3"
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        _, small = server.hellos[-1].gpus

        assert small.uuid == last["uuid"]
        assert small.mig_profile == "1g.10gb"


@pytest.mark.slow
async def test_a_new_instance_under_an_old_number_is_another_gpu(tmp_path: Path) -> None:
    """D07: the number and the profile come again, the UUID does not: the old series ends, a new one begins, and both are told."""
    driver = Driver(tmp_path / "answers.json", MIG)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        before = [gpu.uuid for gpu in server.hellos[-1].gpus]
        again = copy.deepcopy(driver.gpus[0]["instances"][2])
        again["uuid"] = "MIG-00000000-0000-4000-8000-0000000002ff"
        driver.gpus[0]["instances"][2] = again
        driver.save()
        await until(lambda: len(server.hellos) > 1, 40)
        await until(lambda: server.batches[-1].boot == server.hellos[-1].boot, 20)
        after = [gpu.uuid for gpu in server.hellos[-1].gpus]

        assert before[:2] == after[:2]
        assert after[2] == again["uuid"] != before[2]
        assert sum("was destroyed" in text for text in texts(server)) == 1
        assert sum("was created" in text for text in texts(server)) == 1
        assert latest(server, "mem_total_bytes")[2] is not None


@pytest.mark.slow
async def test_switching_mig_off_asks_everything_of_the_whole_card_again(tmp_path: Path) -> None:
    """D07: what was unsupported while the card was split is not remembered for the whole one."""
    driver = Driver(tmp_path / "answers.json", MIG)
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        assert absent(server)[0, "gpu_util_pct"] == "unsupported"
        card = driver.gpus[0]
        card["instances"] = []
        card["calls"]["nvmlDeviceGetMigMode()"] = [0, 0]
        card["calls"]["nvmlDeviceGetUtilizationRates()"] = {"gpu": 37, "memory": 5}
        driver.save()
        await until(lambda: len(server.hellos[-1].gpus) == 1, 60)
        await until(lambda: server.batches[-1].boot == server.hellos[-1].boot, 20)

        assert latest(server, "gpu_util_pct") == [37]
        assert any("MIG was switched off" in text for text in texts(server))
