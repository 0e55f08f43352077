"""Engines and labels through a real server: stored before they are acked, refused by name, and agents from before them."""

import json
import math
import time
from pathlib import Path
from typing import Any

from tests.fleet.ingest.telling import URL, engines, processes, telling
from tests.serving import Server, eventually
from tests.speaking import batch, speak
from wire.messages import Labels, Processes, Welcome

OLDER = json.loads((Path(__file__).parent / "frames_before_engines.json").read_text())


async def test_it_stores_what_it_acks_of_engines_and_labels(server: Server, node: str) -> None:
    """Once the ack is there, so are the rows and the readings; a batch that comes again changes nothing."""
    t = math.floor(time.time()) + 0.25
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(telling(node))
        first = batch(
            said, 0, t,
            engines=engines(URL, "http://h:2", model="Qwen\u202e3", requests_running=3, kv_cache_used=0.25),
            processes=processes({4711: "python\x00"}, {4711: {"engine": "vllm", "flag.max-num-seqs": "256"}}),
        )  # fmt: skip
        await agent.say(first, batch(said, 1, t + 1, engines=engines(URL, model="Qwen3", requests_running=4)), first)
        assert await agent.acked(0, 1)
        home = server.node(node)["id"]
        rows = server.rows("SELECT * FROM inventory_engine WHERE node_id = ? ORDER BY name", home)
        told = server.rows("SELECT pid, name, labels FROM inventory_process WHERE node_id = ?", home)

    assert [(row["name"], row["kind"], row["model"], row["pid"]) for row in rows] == [
        (URL, "vllm", "Qwen3", 4711),
        ("http://h:2", "vllm", "Qwen3", 4711),
    ]
    stored = server.window("engine", t - 1, t + 3, [row["id"] for row in rows])
    assert stored.select("entity", "ts", "requests_running", "kv_cache_used").rows() == [
        (rows[0]["id"], int(t), 3, 0.25),
        (rows[0]["id"], int(t) + 1, 4, None),
        (rows[1]["id"], int(t), 3, 0.25),
    ]
    assert [(row["pid"], row["name"], json.loads(row["labels"])) for row in told] == [
        (4711, "python", {"engine": "vllm", "flag.max-num-seqs": "256"})
    ]


async def test_bad_words_cost_their_batch_and_no_other(server: Server, node: str) -> None:
    """Refused for good with a named error and counted; the batches around it are stored."""
    bad: dict[int, dict[str, Any]] = {
        10: {"engines": engines("http://ann:secret@h:8000")},
        11: {"processes": Processes(pid=[], labels=[Labels(7, {"torch": "2.9"})])},
        12: {"processes": processes({7: "p"}, {7: {"env.AWS_SECRET_ACCESS_KEY": "secret"}})},
    }
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(telling(node))
        await agent.say(batch(said, 0, time.time()))
        for seq, changes in bad.items():
            await agent.say(batch(said, seq, time.time(), **changes))
        await agent.say(batch(said, 20, time.time()))
        assert await agent.acked(0, 20)
        assert await agent.until(lambda: agent.refused() == dict.fromkeys(bad, "wrong_shape")), agent.heard
        assert await agent.until(lambda: server.refusals(node) == {"wrong_shape": 3})

    assert not any("secret" in error.detail for error in agent.of(type(await agent.error("wrong_shape"))))
    assert not server.rows("SELECT * FROM inventory_engine WHERE node_id = ?", server.node(node)["id"])


async def test_a_storm_of_new_names_is_busy_and_no_concern_of_other_nodes(server: Server, node: str) -> None:
    """What is over the share is kept by its agent, not refused; a calm node beside it is acked as ever."""
    calm = f"{node}.calm"
    async with speak(server.agents, server.token(node)) as agent, speak(server.agents, server.token(calm)) as other:
        said, quiet = await agent.greet(telling(node)), await other.greet(telling(calm))
        for seq in range(40):
            names = [f"http://h{seq}:{port}" for port in range(64)]
            await agent.say(batch(said, seq, time.time(), engines=engines(*names)))
        assert await agent.error("busy")
        await other.say(batch(quiet, 0, time.time(), engines=engines(URL)))
        assert await other.acked(0)

    assert agent.refused() == {}
    assert server.rows("SELECT COUNT(*) n FROM inventory_engine WHERE node_id = ?", server.node(calm)["id"]) == [{"n": 1}]


async def test_agents_from_before_engines_and_labels_are_served(server: Server, node: str) -> None:
    """Their frames, as they were made then, are stored and acked."""
    t = math.floor(time.time()) + 0.5
    hello = json.dumps(OLDER["hello"] | {"node": node})
    old = json.dumps(OLDER["batch"] | {"node": node, "t": t})
    async with speak(server.agents, server.token(node)) as agent:
        await agent.raw(hello)
        assert await agent.until(lambda: agent.of(Welcome)), agent.heard
        await agent.raw(old)
        assert await agent.acked(0), agent.heard

    (gpu,) = server.gpus(node)

    assert server.window("gpu", t - 1, t + 1, [gpu["id"]]).select("power_w", "sm_active").rows() == [(301.5, 0.93)]
    assert server.window("process", t - 1, t + 1, [gpu["id"]]).select("pid", "cpu_pct").rows() == [(4711, 100.0)]
    assert eventually(lambda: server.node(node)["last_seen_at"])
    assert server.refusals(node) == {}
