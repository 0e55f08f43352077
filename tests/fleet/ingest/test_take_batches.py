"""Good batches: stored, acked, shown in the inventory."""

import math
import time

from msgspec import structs

from tests.serving import Server, eventually
from tests.speaking import PROCESS, batch, hello, speak
from wire.messages import AbsentChange, GpuFacts, Hold, Processes


async def test_it_stores_what_it_acks(server: Server, node: str) -> None:
    """An acked batch is in the store, each value under its GPU, its second and its metric; absent is null."""
    t = math.floor(time.time()) + 0.25
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, 0, t, {"power_w": 301.5, "mem_used_bytes": 81_234_567_168}, {"cpu_busy_cores": 3.5}))
        await agent.say(batch(said, 1, t + 1, {"power_w": 302.5}, {"cpu_busy_cores": None}))
        assert await agent.acked(0, 1), agent.heard

    gpus = server.gpus(node)
    stored = server.window("gpu", t - 1, t + 3, [gpu["id"] for gpu in gpus])
    host = server.window("host", t - 1, t + 3, [server.node(node)["id"]])

    assert stored.select("entity", "ts", "power_w", "mem_used_bytes", "temperature_c").rows() == [
        (gpu["id"], int(t) + second, 301.5 + second, None if second else 81_234_567_168, None)
        for gpu in gpus
        for second in (0, 1)
    ]
    assert host.select("ts", "cpu_busy_cores").rows() == [(int(t), 3.5), (int(t) + 1, None)]


async def test_it_enters_the_node_and_its_gpus_into_the_inventory(server: Server, node: str) -> None:
    """A hello makes the rows; the first stored batch makes the node seen, its end makes it disconnected."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, recording="leak"))
        row = server.node(node)
        assert (row["boot"], row["cores"], row["recording"], row["driver_version"]) == ("boot-1", 32, "leak", "580.1")
        assert row["connected_at"] is not None
        assert row["disconnected_at"] is None
        await agent.say(batch(said, 0, time.time()))
        assert await agent.acked(0)
        assert eventually(lambda: server.node(node)["last_seen_at"])
        assert abs(eventually(lambda: server.node(node)["clock_skew_s"] is not None and server.node(node))["clock_skew_s"]) < 2

    gpus = server.gpus(node)

    assert [(gpu["index"], gpu["uuid"], gpu["model"], gpu["present"]) for gpu in gpus] == [
        (0, f"GPU-{node}-0", "NVIDIA H200", 1),
        (1, f"GPU-{node}-1", "NVIDIA H200", 1),
    ]
    assert eventually(lambda: server.node(node)["disconnected_at"])


async def test_it_enters_what_a_mig_instance_is_a_slice_of(server: Server, node: str) -> None:
    """A whole GPU has none of it."""
    whole = GpuFacts(index=0, uuid="GPU-1", name="NVIDIA H200", mig_mode=True)
    slice_of = GpuFacts(
        index=1, uuid="MIG-1", name="NVIDIA H200", parent_uuid="GPU-1", mig_profile="1g.18gb\u202e", mig_gpu_instance=7,
        mig_compute_instance=-1,
    )  # fmt: skip
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(structs.replace(hello(node), gpus=(whole, slice_of)))
    rows = [
        (row["parent_uuid"], row["mig_profile"], row["mig_gpu_instance"], row["mig_compute_instance"])
        for row in server.gpus(node)
    ]

    assert rows == [("", "", None, None), ("GPU-1", "1g.18gb", 7, None)]


async def test_it_enters_the_kind_of_a_gpus_memory_and_whether_processes_are_accounted(server: Server, node: str) -> None:
    """A kind that nobody knows is none; an agent from before says neither."""
    gpus = (
        GpuFacts(index=0, uuid="GPU-1", name="NVIDIA GB10", memory_kind="unified", accounting_mode=True),
        GpuFacts(index=1, uuid="GPU-2", name="NVIDIA H200", memory_kind="<b>", accounting_mode=False),
        GpuFacts(index=2, uuid="GPU-3", name="NVIDIA H200"),
    )
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(structs.replace(hello(node), gpus=gpus))

    assert [(row["memory_kind"], row["accounting_mode"]) for row in server.gpus(node)] == [
        ("unified", True),
        ("", False),
        ("", None),
    ]


async def test_it_enters_what_a_gpus_power_is_of_and_over(server: Server, node: str) -> None:
    """V14: whose limit and energy, and over what time the mean; what cannot be is as if nothing was said."""
    gpus = (
        GpuFacts(index=0, uuid="GPU-1", name="NVIDIA GH200", power_scope="module", power_average_s=1.0),
        GpuFacts(index=1, uuid="GPU-2", name="NVIDIA A100", power_scope="gpu", power_average_s=0.0),
        GpuFacts(index=2, uuid="GPU-3", name="NVIDIA H200", power_scope="<b>", power_average_s=-1.0),
    )
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(structs.replace(hello(node), gpus=gpus))

    assert [(row["power_scope"], row["power_average_s"]) for row in server.gpus(node)] == [
        ("module", 1.0),
        ("gpu", 0.0),
        ("", None),
    ]


async def test_it_takes_json_as_well_as_msgpack(server: Server, node: str) -> None:
    """Text frames of the same messages are stored and acked, in text."""
    t = time.time()
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(batch(said, 0, t, {"power_w": 100.0}), text=True)
        assert await agent.acked(0)

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t - 1, t + 1, [gpu["id"]])["power_w"].to_list() == [100.0]


async def test_it_stores_processes_by_the_gpu_they_hold(server: Server, node: str) -> None:
    """One row for each process and GPU; a process that /proc no longer knows has nulls, not zeros."""
    t = time.time()
    processes = Processes(
        pid=[4711],
        name=["python\x00"],
        user=["ann"],
        values=[[100.0 if name == "cpu_pct" else None] for name in PROCESS],
        holds=[Hold(0, 4711, 81_000_000_000), Hold(1, 4711, None), Hold(1, 4712, 7)],
    )
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, 0, t, processes=processes))
        assert await agent.acked(0)

    first, second = server.gpus(node)
    stored = server.window("process", t - 1, t + 1, [first["id"], second["id"]])

    columns = stored.select("entity", "pid", "name", "user", "gpu_mem_bytes", "cpu_pct", "write_chars_total")
    assert columns.rows() == [
        (first["id"], 4711, "python", "ann", 81_000_000_000, 100.0, None),
        (second["id"], 4711, "python", "ann", None, 100.0, None),
        (second["id"], 4712, None, None, 7, None, None),
    ]


async def test_it_takes_late_data_into_history(server: Server, node: str) -> None:
    """A backlog of two days ago is stored and acked, and does not make the node look as if last seen then, or now."""
    t = math.floor(time.time()) - 2 * 86_400 + 0.5
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(
            batch(said, 5, time.time(), {"power_w": 1.0}), *[batch(said, n, t + n, {"power_w": 500.0}) for n in range(3)]
        )
        assert await agent.acked(0, 1, 2, 5)

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t, t + 10, [gpu["id"]])["power_w"].to_list() == [500.0] * 3
    seen = eventually(lambda: server.node(node)["last_seen_at"])
    assert seen.startswith(time.strftime("%Y-%m-%d", time.gmtime()))


async def test_it_keeps_one_row_of_a_batch_sent_twice(server: Server, node: str) -> None:
    """A resent batch is acked again, on another connection too, and is one row in the store."""
    t, token = time.time(), server.token(node)
    for _ in range(2):
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello(node, gpus=1))
            await agent.say(batch(said, 0, t, {"power_w": 50.0}), batch(said, 0, t, {"power_w": 50.0}))
            assert await agent.acked(0)

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t - 5, t + 5, [gpu["id"]])["power_w"].to_list() == [50.0]


async def test_it_marks_gpus_that_are_no_longer_listed(server: Server, node: str) -> None:
    """A hello with fewer GPUs leaves the missing one in the inventory, not present; a later one brings it back."""
    token = server.token(node)
    for boot, gpus, present in (("a", 2, [1, 1]), ("b", 1, [1, 0]), ("c", 2, [1, 1])):
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello(node, boot, gpus))
            await agent.say(batch(said, 0, time.time()))
            assert await agent.until(lambda: [gpu["present"] for gpu in server.gpus(node)] == present)  # noqa: B023

    assert len(server.gpus(node)) == 2


async def test_it_takes_a_backlog_of_an_earlier_boot_under_that_boots_hello(server: Server, node: str) -> None:
    """On the live connection or beside it, an earlier boot's batches are stored, and the inventory stays as the live boot said."""
    token, t = server.token(node), math.floor(time.time()) + 0.5
    async with speak(server.agents, token) as live, speak(server.agents, token) as beside:
        now = await live.greet(hello(node, "new", 1))
        await live.say(batch(now, 0, t, {"power_w": 1.0}))
        earlier = await live.greet(hello(node, "old", 2))
        await live.say(batch(earlier, 7, t - 100, {"power_w": 2.0}))
        oldest = await beside.greet(hello(node, "oldest", 2))
        await beside.say(batch(oldest, 9, t - 200, {"power_w": 3.0}))

        assert await live.acked(0, boot="new")
        assert await live.acked(7, boot="old")
        assert await beside.acked(9, boot="oldest")
        assert server.node(node)["boot"] == "new"
        assert [gpu["present"] for gpu in server.gpus(node)] == [1, 0]

    first, _second = server.gpus(node)

    assert server.window("gpu", t - 300, t + 1, [first["id"]])["power_w"].to_list() == [3.0, 2.0, 1.0]
    assert "conflict" not in server.refusals(node)


async def test_it_notes_two_agents_that_speak_for_one_node(server: Server, node: str) -> None:
    """Live batches of two boots at once are stored, and counted as a conflict; the first keeps speaking for the node."""
    token, t = server.token(node), time.time()
    async with speak(server.agents, token) as one, speak(server.agents, token) as other:
        first = await one.greet(hello(node, "one"))
        await one.say(batch(first, 0, t - 10, {"power_w": 1.0}))
        assert await one.acked(0)
        second = await other.greet(hello(node, "two"))
        await other.say(batch(second, 0, t, {"power_w": 1.0}))
        assert await other.acked(0)
        assert server.node(node)["boot"] == "one"

    assert eventually(lambda: server.refusals(node).get("conflict")) == 1


async def test_it_keeps_absences_as_intervals(server: Server, node: str) -> None:
    """A reason opens an interval, its end closes it, and a batch that is sent again changes nothing."""
    t = math.floor(time.time()) - 10 + 0.5
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        gone = batch(
            said, 0, t, absent=[AbsentChange(0, "power_w", "timeout"), AbsentChange(-1, "cpu_busy_cores", "no_previous")]
        )
        back = batch(said, 1, t + 5, absent=[AbsentChange(0, "power_w", None)])
        await agent.say(gone)
        assert await agent.acked(0)
        await agent.say(back, gone)
        assert await agent.acked(1)

    rows = server.rows(
        "SELECT metric, reason, since, until FROM inventory_absence WHERE node_id = ? ORDER BY metric DESC",
        server.node(node)["id"],
    )

    assert [(row["metric"], row["reason"], row["until"] is not None) for row in rows] == [
        ("power_w", "timeout", True),
        ("cpu_busy_cores", "no_previous", False),
    ]


async def test_it_ends_an_earlier_boots_absences_with_the_next_boot(server: Server, node: str) -> None:
    """What the first batch of a new boot does not call absent is back."""
    token, t = server.token(node), time.time() - 20
    for boot, at, absent in (("a", t, [AbsentChange(0, "power_w", "timeout"), AbsentChange(0, "fp64_active", "unsupported")]),
                             ("b", t + 10, [AbsentChange(0, "fp64_active", "unsupported")])):  # fmt: skip
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello(node, boot, 1))
            await agent.say(batch(said, 0, at, absent=absent))
            assert await agent.acked(0)

    rows = server.rows(
        "SELECT metric, until FROM inventory_absence WHERE node_id = ? ORDER BY metric DESC", server.node(node)["id"]
    )

    assert [(row["metric"], row["until"] is not None) for row in rows] == [("power_w", True), ("fp64_active", False)]


async def test_it_ends_an_absence_whose_end_was_lost(server: Server, node: str) -> None:
    """A batch that tells of absences and has a value where one was open closes it: the batch that said so never came."""
    t = time.time() - 20
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(
            batch(said, 0, t, absent=[AbsentChange(0, "power_w", "timeout"), AbsentChange(0, "sm_active", "timeout")])
        )
        await agent.say(batch(said, 2, t + 9, {"power_w": 300.0}, absent=[AbsentChange(0, "fp64_active", "timeout")]))
        assert await agent.acked(0, 2)

    rows = server.rows("SELECT metric, until FROM inventory_absence WHERE node_id = ? ORDER BY metric", server.node(node)["id"])

    assert {row["metric"]: row["until"] is not None for row in rows} == {
        "fp64_active": False,
        "power_w": True,
        "sm_active": False,
    }


async def test_it_shows_the_skew_of_a_clock_too_wrong_to_be_stored(server: Server, node: str) -> None:
    """A node an hour ahead has every batch refused, and its row says by how much its clock is off."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, 0, time.time() + 3600))
        await agent.error("bad_time")

        assert await agent.until(lambda: server.node(node)["clock_skew_s"])
        assert abs(server.node(node)["clock_skew_s"] - 3600) < 5
