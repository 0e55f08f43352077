"""Bad frames: each refused with a named error, counted, never stored, and the frames around it unharmed."""

import json
import math
import time
from contextlib import AsyncExitStack, suppress

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.serving import Server, eventually
from tests.speaking import GPU, PROCESS, Agent, batch, each, hello, speak
from wire import codec
from wire.messages import AbsentChange, Ack, Error, GpuFacts, Hello, Hold, Processes, Welcome, schema_id


async def good_ones_pass(agent: Agent, said: Hello, seq: int = 900) -> None:
    """A good batch on the same connection is stored and acked."""
    await agent.say(batch(said, seq, time.time(), {"power_w": 1.0}))
    assert await agent.acked(seq), agent.heard


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer " + "x" * 600},
        {"Authorization": "Bearer \xff\xfe"},
    ],
    ids=["none", "wrong", "empty", "basic", "long", "not-ascii"],
)
async def test_it_refuses_a_missing_or_wrong_token_before_accepting(server: Server, headers: dict[str, str]) -> None:
    """HTTP 403 at the handshake: no frame of a stranger is read."""
    from websockets.asyncio.client import connect

    with pytest.raises(InvalidStatus) as refused:
        async with connect(server.agents, additional_headers=headers, proxy=None):
            pass

    assert refused.value.response.status_code == 403


async def test_it_never_takes_a_token_from_the_address(server: Server, node: str) -> None:
    """Addresses end up in logs: a token there is no token."""
    from websockets.asyncio.client import connect

    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{server.agents}?token={server.token(node)}", proxy=None):
            pass

    assert refused.value.response.status_code == 403


async def test_it_ends_a_connection_whose_token_is_revoked(server: Server, node: str) -> None:
    """Within seconds the socket closes, and the token opens no other one."""
    token = server.token(node)
    async with speak(server.agents, token) as agent:
        await agent.greet(hello(node))
        server.execute("UPDATE accounts_agenttoken SET revoked_at = '2025-01-01 00:00:00' WHERE node_name = ?", node)
        assert await agent.until(lambda: agent.closed) == 4403

    time.sleep(5.5)  # how long a good answer is kept

    with pytest.raises(InvalidStatus):
        async with speak(server.agents, token):
            pass


async def test_it_asks_for_hello_before_anything_else(server: Server, node: str) -> None:
    """A batch before the hello is refused `need_hello` and not for good: after the hello it is taken."""
    async with speak(server.agents, server.token(node)) as agent:
        said = hello(node)
        await agent.say(batch(said, 3, time.time()))
        assert (await agent.error("need_hello")).seq == 3
        await agent.greet(said)
        await agent.say(batch(said, 3, time.time()))
        assert await agent.acked(3)

        assert agent.refused() == {}


async def test_it_asks_for_hello_when_the_schema_is_unknown(server: Server, node: str) -> None:
    """A batch of another schema is not read by the known one, and both schemas may be used after both hellos."""
    short = ("power_w",)
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        other = hello(node, gpu_metrics=short, host_metrics=(), process_metrics=(), schema=schema_id(short, (), ()))
        await agent.say(batch(other, 1, time.time(), {"power_w": 7.0}))
        assert (await agent.error("need_hello")).seq == 1
        await agent.greet(other)
        t = time.time()
        await agent.say(batch(other, 1, t, {"power_w": 7.0}), batch(said, 2, t + 1, {"power_w": 8.0}))
        assert await agent.acked(1, 2)

    first, _ = server.gpus(node)

    assert server.window("gpu", t - 1, t + 3, [first["id"]])["power_w"].to_list() == [7.0, 8.0]


MALFORMED = {
    "text-junk": "hello?",
    "binary-junk": b"\xc1\x00\xff\xfe",
    "empty-text": "",
    "empty-binary": b"",
    "json-array": "[]",
    "unknown-type": '{"type":"reboot"}',
    "no-type": '{"node":"a"}',
    "cut-short": b"\x89\xa4type\xa5batch",
    "deep-json": "[" * 100_000,
    "deep-json-in-a-field": '{"type":"batch","gpu":' + "[" * 50_000,
    "deep-msgpack": b"\x91" * 200_000,
    "deep-msgpack-in-a-field": b"\x82\xa4type\xa5batch\xa3gpu" + b"\x91" * 100_000,
    "huge-length": b"\xdd\xff\xff\xff\xff",
    "huge-map": b"\xdf\xff\xff\xff\xff",
    "servers-own": '{"type":"ack","boot":"b"}',
}


async def test_it_refuses_what_is_not_a_message(server: Server, node: str) -> None:
    """Junk is `malformed`, before and after the hello; the connection lives."""

    async def check(name: str, frame: bytes | str) -> None:
        own = f"{node}.{name}"
        async with speak(server.agents, server.token(own)) as agent:
            await agent.raw(frame)
            await agent.error("malformed")
            said = await agent.greet(hello(own))
            await agent.raw(frame)
            assert await agent.until(lambda: len(agent.of(Error)) == 2)
            await good_ones_pass(agent, said)
            assert await agent.until(lambda: server.refusals(own) == {"malformed": 2}), server.refusals(own)

    await each(MALFORMED, check)


def altered(of: Hello, seq: int, **fields: object) -> bytes:
    """A batch with fields that no agent of ours would send."""
    return msgspec.msgpack.encode(msgspec.to_builtins(batch(of, seq, time.time())) | fields)


WRONG_TYPES = {
    "string-value": {"gpu": [["N/A", 1.0]] * len(GPU)},
    "boolean-value": {"gpu": [[True, 1.0]] * len(GPU)},
    "nested-value": {"gpu": [[[1.0], 1.0]] * len(GPU)},
    "map-for-columns": {"gpu": {"power_w": [1.0, 2.0]}},
    "text-time": {"t": "yesterday"},
    "null-node": {"node": None},
    "float-pid": {"processes": {"pid": [1.5], "name": ["a"], "user": ["b"], "values": [], "holds": []}},
}


async def test_it_refuses_a_batch_with_a_field_of_the_wrong_type(server: Server, node: str) -> None:
    """Its seq can still be read, so that the agent drops just this one; the good one beside it is stored."""

    async def check(name: str, fields: dict[str, object]) -> None:
        own = f"{node}.{name}"
        async with speak(server.agents, server.token(own)) as agent:
            said = await agent.greet(hello(own))
            await agent.raw(altered(said, 11, **fields))
            assert (await agent.error("malformed")).seq == 11
            assert await agent.until(lambda: agent.refused()) == {11: "malformed"}
            await good_ones_pass(agent, said)

    await each(WRONG_TYPES, check)


def processes_of(count: int) -> Processes:
    """So many processes."""
    return Processes(pid=list(range(count)), name=["a"] * count, user=["a"] * count, values=[[None] * count] * len(PROCESS))


WRONG = {
    "other-node": ("wrong_node", {"node": "node-of-another"}),
    "path-node": ("wrong_node", {"node": "../../etc/passwd"}),
    "other-boot": ("wrong_boot", {"boot": "never-said"}),
    "missing-metric": ("wrong_shape", {"gpu": [[1.0, 1.0]] * (len(GPU) - 1)}),
    "extra-metric": ("wrong_shape", {"gpu": [[1.0, 1.0]] * (len(GPU) + 1)}),
    "short-column": ("wrong_shape", {"gpu": [[1.0]] * len(GPU)}),
    "long-column": ("wrong_shape", {"gpu": [[1.0] * 3] * len(GPU)}),
    "one-short-column": ("wrong_shape", {"gpu": [[1.0, 1.0]] * (len(GPU) - 1) + [[1.0]]}),
    "no-columns": ("wrong_shape", {"gpu": []}),
    "short-host": ("wrong_shape", {"host": [1.0]}),
    "process-names": ("wrong_shape", {"processes": Processes(pid=[1], name=[], user=["a"], values=[[None]] * len(PROCESS))}),
    "process-columns": (
        "wrong_shape",
        {"processes": Processes(pid=[1], name=["a"], user=["a"], values=[[None]] * (len(PROCESS) - 1))},
    ),
    "process-values": (
        "wrong_shape",
        {"processes": Processes(pid=[1], name=["a"], user=["a"], values=[[None, None]] * len(PROCESS))},
    ),
    "negative-pid": ("wrong_shape", {"processes": Processes(pid=[-1], name=["a"], user=["a"], values=[[None]] * len(PROCESS))}),
    "huge-pid": ("wrong_shape", {"processes": Processes(holds=[Hold(0, 1 << 60, None)])}),
    "hold-of-no-gpu": ("wrong_shape", {"processes": Processes(holds=[Hold(2, 1, None)])}),
    "hold-of-negative-gpu": ("wrong_shape", {"processes": Processes(holds=[Hold(-1, 1, None)])}),
    "pid-twice": (
        "wrong_shape",
        {"processes": Processes(pid=[1, 1], name=["a"] * 2, user=["a"] * 2, values=[[None] * 2] * len(PROCESS))},
    ),
    "hold-twice": ("wrong_shape", {"processes": Processes(values=[[]] * len(PROCESS), holds=[Hold(0, 1, None), Hold(0, 1, 5)])}),
    "1025-processes": ("wrong_shape", {"processes": processes_of(1025)}),
    "4097-holds": (
        "wrong_shape",
        {"processes": Processes(values=[[]] * len(PROCESS), holds=[Hold(0, pid, None) for pid in range(4097)])},
    ),
    "absent-gpu": ("wrong_shape", {"absent": [AbsentChange(2, "power_w", "timeout")]}),
    "absent-metric": ("wrong_shape", {"absent": [AbsentChange(0, "'; DROP TABLE nodes", "timeout")]}),
    "absent-reason": ("wrong_shape", {"absent": [AbsentChange(0, "power_w", "<script>")]}),
    "future": ("bad_time", {"t": time.time() + 3600}),
    "far-future": ("bad_time", {"t": 1e300}),
    "boot-clock": ("bad_time", {"t": 3_600_000.0}),
    "negative-time": ("bad_time", {"t": -1e300}),
    "nan-time": ("bad_time", {"t": math.nan}),
    "infinite-time": ("bad_time", {"t": math.inf}),
}


async def test_it_refuses_a_batch_that_does_not_fit(server: Server, node: str) -> None:
    """A named error with the batch's seq, the seq among the refused ones, counted; nothing stored, good ones unharmed."""

    async def check(name: str, case: tuple[str, dict[str, object]]) -> None:
        code, changes = case
        own = f"{node}.{name}"
        async with speak(server.agents, server.token(own)) as agent:
            said = await agent.greet(hello(own))
            await agent.say(batch(said, 10, time.time(), {"power_w": 1.0}))
            await agent.say(msgspec.structs.replace(batch(said, 11, time.time()), **changes))
            assert (await agent.error(code)).seq == 11
            assert await agent.until(lambda: agent.refused()) == {11: code}
            assert await agent.acked(10)
            await good_ones_pass(agent, said)
            assert agent.stored() == {10, 900}
            assert await agent.until(lambda: server.refusals(own) == {code: 1}), server.refusals(own)

    await each(WRONG, check)


async def test_it_tells_the_refused_boot_in_the_ack(server: Server, node: str) -> None:
    """The ack that names a refused batch is of the batch's boot, so that another boot's seq is not dropped for it."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, 4, time.time(), boot="elsewhere"))
        assert await agent.until(lambda: agent.refused())

        assert [ack.boot for ack in agent.of(Ack)] == ["elsewhere"]


@pytest.mark.parametrize("seq", [-1, 1 << 53, (1 << 63) - 1])
async def test_it_refuses_a_seq_that_cannot_be(server: Server, node: str, seq: int) -> None:
    """Negative and enormous seqs are malformed; there is no seq to name then."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, seq, time.time()))
        assert (await agent.error("malformed")).seq is None
        await good_ones_pass(agent, said)


async def test_it_refuses_a_large_frame_and_keeps_the_connection(server: Server, node: str) -> None:
    """Over 256 kB: `too_large` with the seq, dropped; what follows is taken. Binary and text alike."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        padded = Processes(pid=[1], name=["x" * 300_000], user=["a"], values=[[None]] * len(PROCESS))
        await agent.say(batch(said, 20, time.time(), processes=padded))
        await agent.say(batch(said, 21, time.time(), processes=padded), text=True)
        assert await agent.until(lambda: agent.refused() == {20: "too_large", 21: "too_large"}), agent.heard
        await good_ones_pass(agent, said)


async def test_it_closes_over_an_enormous_frame_and_serves_the_next_connection(server: Server, node: str) -> None:
    """Over 1 MB the socket closes; what was acked stays, what was on its way is taken on the next connection."""
    token, t = server.token(node), time.time()
    async with speak(server.agents, token) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(batch(said, 0, t, {"power_w": 5.0}))
        assert await agent.acked(0)
        await agent.say(batch(said, 1, t + 1, {"power_w": 6.0}))
        with suppress(ConnectionClosed):  # the close may come before the last of it is sent
            await agent.raw(b"\x00" * 1_500_000)
        # 1009, unless the reset that the unread rest provokes overtakes the close frame
        assert await agent.until(lambda: agent.closed) in (1009, 1006)
    async with speak(server.agents, token) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(batch(said, 1, t + 1, {"power_w": 6.0}))
        assert await agent.acked(1)

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t - 1, t + 3, [gpu["id"]])["power_w"].to_list() == [5.0, 6.0]


BAD_HELLOS = {
    "other-node": ("wrong_node", {"node": "somebody-else"}),
    "path-node": ("wrong_node", {"node": "../../../tmp/x"}),
    "unknown-metric": ("unknown_metric", {"gpu_metrics": ("power_w", "magic_w")}),
    "sql-metric": ("unknown_metric", {"host_metrics": ("x'; DROP TABLE accounts_user; --",)}),
    "not-sent-metric": ("unknown_metric", {"host_metrics": ("cpu_pct_per_core",)}),
    "twice-metric": ("bad_hello", {"gpu_metrics": ("power_w", "power_w")}),
    "wrong-schema": ("bad_hello", {"schema": "0123456789ab"}),
    "empty-schema": ("bad_hello", {"schema": ""}),
    "version": ("bad_hello", {"v": 2}),
    "empty-boot": ("bad_hello", {"boot": ""}),
    "path-boot": ("bad_hello", {"boot": "../boot"}),
    "long-boot": ("bad_hello", {"boot": "b" * 65}),
    "zero-interval": ("bad_hello", {"interval_s": 0.0}),
    "nan-interval": ("malformed", {"interval_s": math.nan}),  # JSON has no NaN: it travels as null
    "same-uuid": ("bad_hello", {"gpus": (GpuFacts(index=0, uuid="GPU-a", name="x"), GpuFacts(index=1, uuid="GPU-a", name="x"))}),
    "same-index": ("bad_hello", {"gpus": (GpuFacts(index=0, uuid="GPU-a", name="x"), GpuFacts(index=0, uuid="GPU-b", name="x"))}),
    "negative-index": ("bad_hello", {"gpus": (GpuFacts(index=-1, uuid="GPU-a", name="x"),)}),
    "path-uuid": ("bad_hello", {"gpus": (GpuFacts(index=0, uuid="../../x", name="x"),)}),
    "empty-uuid": ("bad_hello", {"gpus": (GpuFacts(index=0, uuid="", name="x"),)}),
    "too-many-gpus": ("bad_hello", {"gpus": tuple(GpuFacts(index=n, uuid=f"G{n}", name="") for n in range(65))}),
    "10000-gpus": ("too_large", {"gpus": tuple(GpuFacts(index=n, uuid=f"G{n}", name="") for n in range(10_000))}),
}


async def test_it_refuses_a_hello_that_may_not_be_believed(server: Server, node: str) -> None:
    """A named error, no welcome, nothing in the inventory; a good hello on the same connection is then taken."""

    async def check(name: str, case: tuple[str, dict[str, object]]) -> None:
        code, changes = case
        own = f"{node}.{name}"
        async with speak(server.agents, server.token(own)) as agent:
            await agent.raw(smallest(msgspec.structs.replace(hello(own), **changes)))
            await agent.error(code)
            assert agent.of(Welcome) == []
            assert server.rows("SELECT id FROM inventory_node WHERE name = ?", own) == []
            await good_ones_pass(agent, await agent.greet(hello(own)))

    await each(BAD_HELLOS, check)

    names = {row["name"] for row in server.rows("SELECT name FROM inventory_node")}
    assert not any("/" in name or name == "somebody-else" for name in names)


def smallest(said: Hello) -> str:
    """The hello without its nulls, as a hostile agent would send it: thousands of GPUs fit under a megabyte."""
    frame = {name: value for name, value in msgspec.to_builtins(said).items() if value is not None}
    frame["gpus"] = [{name: value for name, value in gpu.items() if value is not None} for gpu in frame["gpus"]]
    return msgspec.json.encode(frame).decode()


async def test_it_refuses_a_token_whose_node_has_no_proper_name(server: Server) -> None:
    """Even where a token for a path was put into the database by hand, no such node appears."""
    name = "../../escape"
    async with speak(server.agents, server.token(name)) as agent:
        await agent.say(hello(name))
        await agent.error("bad_hello")

    assert server.rows("SELECT id FROM inventory_node WHERE name = ?", name) == []


async def test_it_keeps_facts_that_cannot_be_out_of_the_inventory(server: Server, node: str) -> None:
    """Sizes below zero or beyond any machine, control characters and endless names are dropped or cut, not stored."""
    gpu = GpuFacts(
        index=0,
        uuid="GPU-odd",
        name="H200\x00<b>" + "x" * 500,
        mem_total_bytes=-5,
        power_limit_w=1e300,
        pcie_link_gen_max=1 << 60,
    )
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(msgspec.structs.replace(hello(node), gpus=(gpu,), agent_version="v" * 500))

    (row,) = server.gpus(node)

    assert row["model"].startswith("H200<b>x")
    assert len(row["model"]) == 100
    assert (row["mem_total_bytes"], row["power_limit_w"], row["pcie_link_gen_max"]) == (None, None, None)
    assert len(server.node(node)["agent_version"]) == 40


async def test_it_answers_the_same_hello_twice(server: Server, node: str) -> None:
    """Hello twice is welcomed twice, and batches go on."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.say(batch(said, 0, time.time()))
        await agent.greet(said)
        await agent.say(batch(said, 1, time.time() + 1))
        assert await agent.acked(0, 1)

    assert len(server.gpus(node)) == 2


async def test_it_slows_down_who_says_ever_new_hellos(server: Server, node: str) -> None:
    """Each new hello costs database work: after thirty in a minute the next is `busy`, on whichever connection it is said."""
    token = server.token(node)
    async with speak(server.agents, token) as agent:
        for number in range(30):
            await agent.greet(hello(node, f"boot-{number}"))
        await agent.say(hello(node, "one-too-many"))
        await agent.error("busy")
        await good_ones_pass(agent, hello(node, "boot-29"))
    async with speak(server.agents, token) as agent:
        await agent.say(hello(node, "on-another-connection"))
        await agent.error("busy")


async def test_it_forgets_gpus_that_were_listed_once_and_long_replaced(server: Server, node: str) -> None:
    """An agent that lists ever new UUIDs leaves a bounded number of rows; those of the newest hello are all there."""
    async with speak(server.agents, server.token(node)) as agent:
        for boot in range(6):
            gpus = tuple(GpuFacts(index=n, uuid=f"GPU-{boot}-{n}", name="x") for n in range(60))
            await agent.greet(msgspec.structs.replace(hello(node, f"boot-{boot}"), gpus=gpus))

    uuids = {row["uuid"] for row in server.gpus(node)}

    assert len(uuids) == 60 + 64 + 60
    assert uuids >= {f"GPU-5-{n}" for n in range(60)}
    assert uuids >= {f"GPU-0-{n}" for n in range(60)}, "what the node has now is not forgotten for an earlier boot's hello"


IMPOSSIBLE = {
    "nan": math.nan,
    "infinite": math.inf,
    "spike": 644_245_923.0,
    "negative": -5.0,
    "dcgm-blank": float(0x7FFFFFF0),
    "all-ones": 0xFFFFFFFFFFFFFFFF,
}


async def test_it_stores_an_impossible_value_as_absent(server: Server, node: str) -> None:
    """NaN and values outside the metric's range become null, counted and kept as an absence; the batch's other values stay."""
    t = time.time()

    async def check(name: str, value: float) -> None:
        own = f"{node}.{name}"
        async with speak(server.agents, server.token(own)) as agent:
            said = await agent.greet(hello(own, gpus=1))
            await agent.say(
                batch(said, 0, t, {"power_w": value, "temperature_c": 40.0}), batch(said, 1, t + 1, {"power_w": 300.0})
            )
            assert await agent.acked(0, 1)
            assert await agent.until(lambda: server.refusals(own) == {"out_of_range": 1}), server.refusals(own)
        (gpu,) = server.gpus(own)
        stored = server.window("gpu", t - 1, t + 3, [gpu["id"]])
        absent = server.rows("SELECT * FROM inventory_absence WHERE gpu_id = ?", gpu["id"])
        assert stored.select("power_w", "temperature_c").rows() == [(None, 40.0), (300.0, None)]
        assert [(row["metric"], row["reason"]) for row in absent] == [("power_w", "out_of_range")]

    await each(IMPOSSIBLE, check)


async def test_it_stores_a_fraction_of_a_bit_mask_as_absent(server: Server, node: str) -> None:
    """Bit masks and states are whole numbers."""
    t = time.time()
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        await agent.say(batch(said, 0, t, {"clocks_event_reasons": 4.5, "pstate": 0}))
        assert await agent.acked(0)

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t - 1, t + 1, [gpu["id"]]).select("clocks_event_reasons", "pstate").rows() == [(None, 0)]


async def test_it_survives_a_json_number_beyond_any_float(server: Server, node: str) -> None:
    """An integer of 400 digits is refused or absent; either way the connection and the others' batches live."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, gpus=1))
        frame = json.loads(codec.encode_text(batch(said, 0, time.time(), {"temperature_c": 40.0})))
        frame["gpu"][GPU.index("power_w")] = [10**400]
        await agent.raw(json.dumps(frame))
        assert await agent.until(lambda: agent.stored() or agent.refused())
        await good_ones_pass(agent, said)


async def test_it_logs_a_refusal_once(server: Server, node: str) -> None:
    """Two dozen refusals of one kind are one line in the log and two dozen in the count."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        for seq in range(24):
            await agent.say(batch(said, seq, 0.0))
        assert await agent.until(lambda: len(agent.refused()) == 24, 40)

    assert eventually(lambda: server.refusals(node) == {"bad_time": 24})
    assert server.log.read_text().count(f"Refused a frame of {node}:") == 1


async def test_it_limits_the_connections_of_one_token(server: Server, node: str) -> None:
    """The ninth at once is closed (1013, come later); when one ends there is room again."""
    token = server.token(node)
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(speak(server.agents, token)) for _ in range(9)]
        assert await agents[8].until(lambda: agents[8].closed) == 1013
        assert [agent.closed for agent in agents[:8]] == [None] * 8
        await agents[0].socket.close()
        again = await stack.enter_async_context(speak(server.agents, token))
        await good_ones_pass(again, await again.greet(hello(node)))
