"""GPUs that are lost (D01, D02, D05, I01): one alert whoever tells of it, the others go on, and a GPU that comes back is known again."""

from pathlib import Path

import pytest

from tests.agents.driven import Driver, absent, agent, latest, once, texts, ticks
from tests.agents.server import Server, running, until

LOST, UNKNOWN, XID = 15, 999, 8
H200 = "h200-driver-580.json"


def kernel_says(directory: Path, *messages: str) -> None:
    """Lines of the kernel's log, in the file that stands for it."""
    with (directory / "kmsg").open("a") as log:
        log.writelines(f"3,{number},1000,-;{message}\n" for number, message in enumerate(messages))


def of_kind(server: Server, kind: str) -> list[str | None]:
    """The GPUs of all events of one kind."""
    return [event.gpu_uuid for event in server.events if event.kind == kind]


async def test_a_gpu_that_fell_off_the_bus_is_one_loss_by_three_witnesses(tmp_path: Path) -> None:
    """D01: the kernel's sentence, XID 79 of both sides and NVML's own answer are one loss and one XID; the other GPU is read on."""
    driver = Driver(tmp_path / "answers.json", H200)
    uuid, pci = driver.gpus[1]["uuid"], driver.gpus[1]["calls"]["nvmlDeviceGetPciInfo()"]["busId"]
    address = pci.lower()[-12:]
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        kernel_says(
            tmp_path,
            f"NVRM: GPU at PCI:{address[:-2]}: {uuid}",
            f"NVRM: Xid (PCI:{address[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            f"NVRM: GPU {address}: GPU has fallen off the bus.",
        )
        driver.answers["events"] = [[1, XID, 79]]
        driver.gpus[1]["fails"] = LOST
        driver.save()
        await until(lambda: of_kind(server, "gpu_lost") and of_kind(server, "xid"), 20)
        await until(lambda: absent(server).get((1, "power_w")) == "gpu_lost", 20)
        await ticks(server, 4)

        assert of_kind(server, "gpu_lost") == [uuid]
        assert [(event.gpu_uuid, event.code) for event in server.events if event.kind == "xid"] == [(uuid, 79)]
        assert latest(server, "power_w")[0] is not None


async def test_text_alone_tells_of_the_loss(tmp_path: Path) -> None:
    """D01: no XID and no NVML event, only the sentence in the log."""
    driver = Driver(tmp_path / "answers.json", H200)
    address = driver.gpus[0]["calls"]["nvmlDeviceGetPciInfo()"]["busId"].lower()[-12:]
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        kernel_says(tmp_path, f"NVRM: GPU {address}: GPU has fallen off the bus.")
        await until(lambda: of_kind(server, "gpu_lost"), 20)

        assert of_kind(server, "gpu_lost") == [driver.gpus[0]["uuid"]]


async def test_one_bad_gpu_at_the_start_leaves_the_others(tmp_path: Path) -> None:
    """D02: a handle that cannot be had is told in a sentence; the other GPU has all its readings."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[0]["fails"] = UNKNOWN
    driver.save()
    found = await once(driver)

    assert found["gpus_state"] == "ok"
    assert [gpu["uuid"] for gpu in found["gpus"]] == [driver.gpus[1]["uuid"]]
    assert found["gpus"][0]["power_w"] > 0

    async with running() as server, agent(driver, server, tmp_path):
        await until(lambda: any(text.startswith("GPU 0 of 2 does not answer") for text in texts(server)), 20)


@pytest.mark.slow
async def test_an_unplugged_gpu_keeps_its_place_and_is_known_again_by_its_uuid(tmp_path: Path) -> None:
    """D01, D05, I01: the count shrinks and NVML renumbers; readings never move to another GPU's column, and both are back later."""
    driver = Driver(tmp_path / "answers.json", H200)
    first, second = driver.gpus
    second["calls"]["nvmlDeviceGetPowerUsage()"] = 412_500
    driver.save()
    async with running() as server, agent(driver, server, tmp_path):
        await ticks(server)
        first["fails"] = LOST
        driver.save()
        await until(lambda: of_kind(server, "gpu_lost"), 20)
        driver.answers["gpus"] = [second]  # what was 1 is 0 to NVML now
        driver.save()
        await ticks(server, 15)
        assert latest(server, "power_w") == [None, 412.5]
        assert [gpu.uuid for gpu in server.hellos[-1].gpus] == [first["uuid"], second["uuid"]]

        del first["fails"]
        driver.answers["gpus"] = [second, first]
        driver.save()
        await until(lambda: of_kind(server, "gpu_back"), 60)
        await until(lambda: None not in latest(server, "power_w"), 20)

        assert latest(server, "power_w")[1] == 412.5
        assert of_kind(server, "gpu_lost") == of_kind(server, "gpu_back") == [first["uuid"]]


async def test_an_order_that_changes_between_two_starts_follows_the_uuid(tmp_path: Path) -> None:
    """I01: an index is for display alone: the same UUID has the same readings wherever NVML lists it."""
    driver = Driver(tmp_path / "answers.json", H200)
    driver.gpus[1]["calls"]["nvmlDeviceGetPowerUsage()"] = 412_500
    driver.save()
    before = {gpu["uuid"]: gpu["power_w"] for gpu in (await once(driver))["gpus"]}
    driver.answers["gpus"] = driver.gpus[::-1]
    driver.save()
    after = {gpu["uuid"]: gpu["power_w"] for gpu in (await once(driver))["gpus"]}

    assert len(set(before.values())) == 2
    assert after == before
